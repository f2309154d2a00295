"""Questions and answers as they are kept and told: by dialogue, with the figures that no row has marked."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, func, select

from chordesk.agents.asking.clerk import EarlierEntry
from chordesk.models.answers import Frozen, Grounding
from chordesk.models.asking.proposals import AskingProposal
from chordesk.models.asking.tables import AskingEntry
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Run, Turn
from chordesk.models.text import SHORT_ID, one_line
from chordesk.tasks.asking.answers import Answer

ASKED, ANSWERED, FAILED = "asked", "answered", "failed"
REMEMBERED, CHARS = 6, 1_200  # entries that a question is asked with, and characters of each text
GOES_ON = dt.timedelta(hours=72)  # from its last question, a dialogue
NOT_FOUND = "[not found]"


_NO_NAME = re.compile(r"[^\w .,'@+-]")


def person_of(name: str) -> str:
    """Return a name as a run's record takes it."""
    return _NO_NAME.sub("-", name)[:80]


class EntryView(Frozen):
    """A question with its answer. state: asked, answered, failed or stopped; text: as it was given, and marked with
    `NOT_FOUND` after each figure that no tool's answer has. figures, found: of the text, None of one from rows, whose
    figures are the rows'. unsupported: {figure, start, end} of given. reason: why there is no answer. proposals: {id,
    title, state} of what it ended in."""

    id: str
    dialogue: str
    person: str
    origin: str
    account: str
    question: str
    intent: str
    run_id: str | None
    state: str
    text: str
    given: str
    sources: list[dict[str, Any]]
    missing: list[str]
    figures: int | None
    found: int | None
    unsupported: list[dict[str, Any]]
    reason: str | None
    proposals: list[dict[str, str]]
    tokens: int
    created_at: dt.datetime
    ended_at: dt.datetime | None


class DialogueView(Frozen):
    """A dialogue in a list of them. question: its first."""

    id: str
    person: str
    origin: str
    account: str
    question: str
    entries: int
    began_at: dt.datetime
    last_at: dt.datetime


def entry_view(session: Session, entry: AskingEntry) -> EntryView:
    run = session.get(Run, entry.run_id) if entry.run_id is not None else None
    spent = select(func.coalesce(func.sum(Turn.total_tokens), 0)).where(Turn.run_id == entry.run_id)
    tokens = session.exec(spent).one() or 0 if entry.run_id is not None else 0
    state, reason = entry.state, entry.reason
    if state == ASKED and run is not None and run.state in RUN_FINAL:  # it ended before its step could
        state = "stopped" if run.state == "stopped" else FAILED
        reason = "; ".join(run.notes[:3]) or f"its run is {run.state}"
    made = session.exec(select(AskingProposal).where(AskingProposal.entry == entry.id)).all()
    grounding = Grounding.model_validate(entry.grounding) if entry.grounding is not None else None
    return EntryView.of(
        entry, state=state, reason=reason, tokens=tokens, given=entry.text, text=marked(entry.text, grounding),
        figures=grounding.figures if grounding else None, found=grounding.supported if grounding else None,
        unsupported=[one.model_dump(exclude={"text"}) for one in grounding.unsupported] if grounding else [],
        proposals=[one.model_dump(include={"id", "title", "state"}) for one in made],
    )  # fmt: skip


def marked(text: str, grounding: Grounding | None) -> str:
    """Return a text with a mark after each figure that was not found."""
    for end in sorted({one.end for one in grounding.unsupported} if grounding else (), reverse=True):
        text = f"{text[:end]} {NOT_FOUND}{text[end:]}"
    return text


def entry_of(session: Session, part: str) -> AskingEntry:
    from chordesk.models.database.lookup import by_prefix

    found: AskingEntry = by_prefix(session, AskingEntry, part, lists="`desk ask --dialogues` lists dialogues")
    return found


def dialogue_entries(session: Session, dialogue: str) -> Sequence[AskingEntry]:
    rows = select(AskingEntry).where(AskingEntry.dialogue == dialogue)
    return session.exec(rows.order_by(col(AskingEntry.id))).all()


def dialogues(session: Session, most: int) -> list[DialogueView]:
    """The one that was asked last comes first."""
    last = func.max(col(AskingEntry.id))
    rows = select(AskingEntry.dialogue, func.count(), last).group_by(col(AskingEntry.dialogue))
    found = []
    for dialogue, count, newest in session.exec(rows.order_by(last.desc()).limit(most)).all():
        first = session.exec(
            select(AskingEntry).where(AskingEntry.dialogue == dialogue).order_by(col(AskingEntry.id)).limit(1)
        ).one()
        ended = session.get_one(AskingEntry, newest).created_at
        found.append(
            DialogueView.of(
                first, id=dialogue, question=one_line(first.question, 200), entries=count, began_at=first.created_at,
                last_at=ended,
            )
        )  # fmt: skip
    return found


def going_on(session: Session, person: str, origin: str, account: str, since: dt.datetime | None = None) -> str | None:
    """Return the dialogue that a person's next question goes on with; None where the last one was too long ago, or
    before `since`."""
    from_then = utcnow() - GOES_ON
    rows = select(AskingEntry).where(
        AskingEntry.person == person, AskingEntry.origin == origin, AskingEntry.account == account,
        col(AskingEntry.created_at) >= (max(from_then, since) if since is not None else from_then),
    )  # fmt: skip
    last = session.exec(rows.order_by(col(AskingEntry.id).desc()).limit(1)).first()
    return last.dialogue if last is not None else None


def whole_dialogue(session: Session, part: str) -> str:
    """Return the id of the dialogue that begins so. Raises NotFound, and UsageError where several do."""
    begins = col(AskingEntry.dialogue).startswith(part, autoescape=True)
    found = session.exec(select(AskingEntry.dialogue).where(begins).distinct().limit(2)).all() if part else ()
    if not found:
        raise NotFound(f"there is no dialogue {part!r}", remedy="`desk ask --dialogues` lists them")
    if len(found) > 1:
        raise UsageError(f"more than one dialogue begins with {part!r}", remedy="give more of its id")
    return found[0]


def named_dialogue(session: Session, part: str, account: str) -> str:
    """Return the dialogue that a question goes on with. Raises as of whole_dialogue, and for one about another
    account."""
    found = whole_dialogue(session, part)
    of = session.exec(select(AskingEntry.account).where(AskingEntry.dialogue == found).limit(1)).one()
    if of != account:
        raise UsageError(f"the dialogue {found[:SHORT_ID]} is about {of}", remedy=f"give --account {of}, or --new")
    return found


def earlier(session: Session, entry: AskingEntry) -> list[EarlierEntry]:
    """Return what a question is asked with: the last answered ones of its dialogue, the oldest first."""
    rows = select(AskingEntry).where(
        AskingEntry.dialogue == entry.dialogue, col(AskingEntry.id) < entry.id, AskingEntry.state == ANSWERED
    )
    last = session.exec(rows.order_by(col(AskingEntry.id).desc()).limit(REMEMBERED)).all()
    return [{"question": one.question[:CHARS], "answer": one.text[:CHARS]} for one in reversed(last)]


def keep_answer(
    store: Store, found: Answer, person: str, origin: str, account: str, dialogue: str | None
) -> AskingEntry:
    """Write a question that was answered from rows."""
    id_, now = new_id(), utcnow()
    entry = AskingEntry(
        id=id_, dialogue=dialogue or id_, person=person, origin=origin, account=account, question=found.question,
        intent=found.intent, state=ANSWERED, text=found.text, missing=found.missing,
        sources=[one.model_dump() for one in found.sources], created_at=now, ended_at=now,
    )  # fmt: skip
    with store.session() as session:
        session.add(entry)
    return entry


def way_of(source: Mapping[str, str]) -> dict[str, str]:
    """Return a source with its place on the page."""
    return {**source, "way": f"/{source['kind']}s/{source['id']}"}
