"""The clerk: its subject, what code makes of its answer, and its role."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from chordesk.agents.role import Role
from chordesk.agents.subjects import Constraints, constraints
from chordesk.agents.turn_answers import RecordedCall, loaded
from chordesk.models.asking.answers import ClerkAnswer, ClerkOutput
from chordesk.models.settings import Settings
from chordesk.models.text import one_line
from chordesk.tools.model_tools.company import COMPANY_GET
from chordesk.tools.model_tools.company_data import EARNINGS_DATES
from chordesk.tools.model_tools.news import NEWS_LIST
from chordesk.tools.model_tools.signals import SIGNALS_GET, TECHNICALS_GET

CLERK = "clerk"
_SHORTEST_ID = 6  # characters by which a source may be named


class EarlierEntry(TypedDict):
    """An earlier question of the dialogue, with its answer."""

    question: str
    answer: str


class ClerkSubject(TypedDict):
    """A question. day: of the account's market; earlier: of the same dialogue, the oldest first."""

    constraints: Constraints
    account: str
    day: str
    earlier: list[EarlierEntry]
    question: str


def clerk_subject(
    settings: Settings, account: str, day: str, question: str, earlier: Sequence[EarlierEntry] = ()
) -> ClerkSubject:
    return {
        "constraints": constraints(settings), "account": account, "day": day, "earlier": list(earlier),
        "question": question,
    }  # fmt: skip


def looked_up(subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> bool:
    """Whether any tool answered: that the rows have nothing is an answer too."""
    return any(call.answer.success for call in calls)


def complete_answer(
    answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]
) -> dict[str, Any]:
    """Return the answer with the sources that a tool of its turn gave, and the proposals whose arguments can be read.
    The others are left out, and `missing` says so: a wrong id spoils no answer."""
    known = {one["id"]: one for call in calls for one in _sources(call.answer.payload)}
    named: dict[str, dict[str, str]] = {}
    left = []
    for text in answer["sources"]:
        found = _named(text, known)
        if found is None:
            left.append(f"the source {one_line(text, 60)}: no tool of this turn gave it")
        else:
            named[found["id"]] = found
    proposals = []
    for one in answer["proposals"]:
        arguments = loaded(one["arguments"])
        if arguments is None:
            left.append(f"a proposal to {one['kind']}: its arguments are no JSON object")
        else:
            proposals.append({"kind": one["kind"], "arguments": arguments})
    return {
        "answer": answer["answer"], "sources": list(named.values()), "missing": [*answer["missing"], *left],
        "proposals": proposals,
    }  # fmt: skip


def _sources(payload: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for one in payload.get("sources") or ():
        if isinstance(one, Mapping) and "kind" in one and "id" in one:
            yield {"kind": str(one["kind"]), "id": str(one["id"])}


def _named(text: str, known: Mapping[str, dict[str, str]]) -> dict[str, str] | None:
    """Return the one source whose id a model wrote, perhaps shortened or with its kind before it."""
    written = text.strip().split()[-1].strip(".,;:()[]`'\"…") if text.strip() else ""
    fits = [one for id_, one in known.items() if len(written) >= _SHORTEST_ID and id_.startswith(written)]
    return fits[0] if len(fits) == 1 else None


CLERK_ROLE = Role(
    CLERK, "research", "clerk.md", "ask_clerk.md", ClerkSubject,
    (COMPANY_GET, EARNINGS_DATES, NEWS_LIST, SIGNALS_GET, TECHNICALS_GET), ClerkOutput,
    keeps_thread=False, optional=True, reports=False, of_market=False, evidence=looked_up, complete=complete_answer,
    completed=ClerkAnswer, smallest=lambda settings: clerk_subject(settings, "paper", "", ""),
)  # fmt: skip
ROLES = (CLERK_ROLE,)
