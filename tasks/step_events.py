"""What happens to steps, as events: claimed, tried again, ended."""

from __future__ import annotations

from typing import Any, Protocol

from models.events import Envelope, EventType, event
from models.states import AttemptEnd, StepState

_LONGEST = 500


class Named(Protocol):
    """A step, or the part of one that says which it is."""

    @property
    def id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def attempt(self) -> int: ...


def started(step: Named, owner: str) -> Envelope:
    return _event(EventType.STATUS_STARTED, step, owner=owner)


def again(step: Named, outcome: AttemptEnd, why: str | None) -> Envelope:
    """An attempt has ended, and not the step."""
    return _event(EventType.STATUS_AGAIN, step, outcome=outcome.value, why=_short(why))


def ended(step: Named, state: StepState, why: str | None) -> Envelope:
    return _event(EventType.STATUS_ENDED, step, state=state.value, why=_short(why))


def _event(type_: EventType, step: Named, **told: Any) -> Envelope:
    which = {"step": step.id, "kind": str(step.kind), "subject": step.subject, "role": step.role}
    return event(type_, step.run_id, **which, attempt=step.attempt, **told)


def _short(why: str | None) -> str | None:
    return why[:_LONGEST] if why is not None else None
