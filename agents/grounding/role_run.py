"""The grounding of a role's answer: the texts that a model wrote, on the tool answers of its turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from chordesk.agents.answers import RecordedCall
from chordesk.agents.grounding.report import ground
from chordesk.models.answers import Completed, Grounding, Outcome

_TEXTS = ("summary", "headline", "reasoning", "thesis")
_LISTS = ("key_risks",)


class EndedRole(Protocol):
    """What is asked of a role's result, `agents.runner.RoleRun`: the figures of a board have no use for the runner."""

    @property
    def outcome(self) -> Outcome: ...

    @property
    def has_data(self) -> bool: ...

    @property
    def recorded(self) -> Sequence[RecordedCall]: ...

    @property
    def question(self) -> Mapping[str, Any]: ...


def texts_of(value: Mapping[str, Any]) -> dict[str, str]:
    """Return an answer's texts by path, without the values that code filled in."""
    found = {name: value[name] for name in _TEXTS if isinstance(value.get(name), str)}
    for name in _LISTS:
        found |= {f"{name}/{at}": text for at, text in enumerate(value.get(name) or ()) if isinstance(text, str)}
    return found


def grounding_of(run: EndedRole) -> Grounding | None:
    """Return the grounding of an answer; None where there is none, or it rests on no data. A role without tools has its
    question alone."""
    if not isinstance(run.outcome, Completed) or not run.has_data:
        return None
    calls = [(call.answer.tool, call.arguments, call.answer.payload) for call in run.recorded]
    return ground(texts_of(run.outcome.value), calls, run.question)
