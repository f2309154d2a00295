"""Proposals: typed acts, worded and priced by code, that wait for a person.

A person's own words name what they like: it is looked up. What a model names was returned by a tool of its turn, or
stands in the person's question; else the act is not proposed, which the audit log has as it has a rogue call.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError
from sqlalchemy import func, update
from sqlmodel import Session, col, select

from chordesk.models.asking.proposals import AskingProposal
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.text import one_line
from chordesk.tasks.asking.questions import cleaned
from chordesk.tasks.proposals import (
    Office,
    Proposable,
    ProposalArguments,
    ProposalCard,
    Proposed,
    find,
    kinds,
    scope_of,
)
from chordesk.tools.orders import audit

LIFE = dt.timedelta(minutes=10)
MOST_OPEN = 20  # of one person
MOST_OF_TURN = 5
OPEN, CONFIRMED, DONE, FAILED = "open", "confirmed", "done", "failed"
CHANGED, DISMISSED, REPLACED, EXPIRED = "changed", "dismissed", "replaced", "expired"
ACCOUNT = "account"
Call = tuple[str, Mapping[str, Any], Any]  # tool, arguments, answer


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asked for a proposal, and from where."""

    by: str
    origin: str


def propose(office: Office, kind: str, given: Mapping[str, Any], asker: Asker) -> AskingProposal:
    """Write a proposal and return it. Raises DeskError for what is no act, or fits nothing that there is."""
    row = drafted(office, kind, given, asker, outside=False)
    with office.store.session() as session:
        add(session, row)
    return row


def drafted(office: Office, kind: str, given: Mapping[str, Any], asker: Asker, *, outside: bool) -> AskingProposal:
    """Return a proposal that is not written yet. outside: the model that named it had read text from outside."""
    found = find(kind)
    card = found.word(office, checked(kind, found, given))
    arguments = checked(kind, found, card.arguments)
    with office.store.read() as session:
        row = _row(session, office, kind, found, arguments, card, asker)
    row.outside = outside
    row.shown = shown_hash(row)
    return row


def add(session: Session, row: AskingProposal) -> None:
    """Write a proposal. One that the same person has open for the same act gives way to it."""
    _make_room(session, row)
    session.add(row)


def checked(kind: str, found: Proposable, given: Mapping[str, Any]) -> ProposalArguments:
    try:
        return found.arguments.model_validate(dict(given))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc'])) or kind}: {one['msg']}" for one in error.errors()[:3])
        takes = ", ".join(found.arguments.model_fields) or "nothing"
        raise UsageError(
            f"{kind} is not proposed with this: {one_line(wrong, 200)}", remedy=f"it takes {takes}"
        ) from None


def _row(
    session: Session,
    office: Office,
    kind: str,
    found: Proposable,
    arguments: ProposalArguments,
    card: ProposalCard,
    asker: Asker,
) -> AskingProposal:
    now = utcnow()
    return AskingProposal(
        id=new_id(), kind=kind, arguments=arguments.model_dump(mode="json"), title=one_line(card.title, 200),
        lines=[one_line(line, 300) for line in card.lines], cost=one_line(card.cost, 300), account=office.account,
        bound=bound_now(session, office, found, arguments), shown="", by=asker.by, origin=asker.origin,
        created_at=now, expires_at=now + LIFE, state=OPEN,
    )  # fmt: skip


def bound_now(session: Session, office: Office, found: Proposable, arguments: ProposalArguments) -> dict[str, str]:
    """Return what a confirmation rests on, as it is now: the account with its kind of money, and the act's own."""
    money = "real money" if office.settings.real_money else "play money"
    return {ACCOUNT: f"{office.account}, {money}", **found.bound(session, office, arguments)}


def shown_hash(row: AskingProposal) -> str:
    """Return the hash of all that a card says and of what it is bound to."""
    shown = row.model_dump(
        mode="json",
        include={"id", "kind", "arguments", "title", "lines", "cost", "account", "bound", "outside", "expires_at"},
    )
    return hashlib.sha256(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _make_room(session: Session, row: AskingProposal) -> None:
    now = utcnow()
    mine = (
        AskingProposal.by == row.by, AskingProposal.origin == row.origin, AskingProposal.state == OPEN,
        col(AskingProposal.expires_at) > now,
    )  # fmt: skip
    same = [
        one.id
        for one in session.exec(select(AskingProposal).where(*mine, AskingProposal.kind == row.kind)).all()
        if one.arguments == row.arguments
    ]
    if same:
        gone = {"state": REPLACED, "decided_at": now, "outcome": f"asked again: {row.id}"}
        session.connection().execute(
            update(AskingProposal)
            .where(col(AskingProposal.id).in_(same), col(AskingProposal.state) == OPEN)
            .values(gone)
        )
    if session.exec(select(func.count()).select_from(AskingProposal).where(*mine)).one() >= MOST_OPEN:
        remedy = "confirm or dismiss some: `desk proposals list`; each expires after ten minutes"
        raise UsageError(f"{MOST_OPEN} proposals wait for {row.by} already", remedy=remedy)


def wish(text: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind and the arguments of the act that a person's words ask for; None where they ask for none. Raises
    UsageError for a text that is empty or too long."""
    given = cleaned(text)
    for kind, found in kinds().items():
        if found.read is not None and (arguments := found.read(given)) is not None:
            return kind, arguments
    return None


def from_text(office: Office, text: str, asker: Asker) -> AskingProposal | None:
    """Propose what a person's words ask for; None where they ask for no act. Raises DeskError."""
    wanted = wish(text)
    return propose(office, *wanted, asker) if wanted is not None else None


def from_turn(
    office: Office,
    wanted: Sequence[Mapping[str, Any]],
    calls: Sequence[Call],
    question: str,
    asker: Asker,
    *,
    outside: bool,
) -> tuple[list[AskingProposal], list[str]]:
    """Return what a model's turn ended in, each {kind, arguments}, as proposals that are not written yet, and why
    others are none. question: the person's own words; outside: a tool of the turn returned text from elsewhere."""
    made: list[AskingProposal] = []
    notes = [f"{len(wanted) - MOST_OF_TURN} more were not looked at"] if len(wanted) > MOST_OF_TURN else []
    returned = {one for _, _, answer in calls for one in _values(answer)}
    for one in wanted[:MOST_OF_TURN]:
        kind, given = str(one.get("kind", "")), one.get("arguments")
        try:
            if not isinstance(given, Mapping):
                raise UsageError(f"{one_line(kind, 40)!r} has no arguments", remedy="name them")
            if strange := _not_returned(find(kind), given, returned, question):
                _note_rogue(office, kind, strange, asker)
                named = one_line(", ".join(strange), 120)
                raise UsageError(f"no tool of this turn returned {named}", remedy="look it up first")
            made.append(drafted(office, kind, given, asker, outside=outside))
        except DeskError as error:
            notes.append(f"not proposed, {one_line(kind, 40)}: {error.args[0]}")
    return made, notes


def read_outside(calls: Sequence[Call]) -> bool:
    """Whether a tool returned text that the desk's code did not write: a field `outside`, or any sentence."""
    return any(
        bool(isinstance(answer, Mapping) and answer.get("outside"))
        or any(one.count(" ") > 3 for one in _values(answer))
        for _, _, answer in calls
    )


def _values(answer: Any) -> Iterator[str]:
    """Yield each whole value of a tool's answer that is a text; a word within a text is none."""
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, Mapping):
        for name, value in answer.items():
            yield str(name)
            yield from _values(value)
    elif isinstance(answer, list | tuple):
        for value in answer:
            yield from _values(value)


def _not_returned(found: Proposable, given: Mapping[str, Any], returned: set[str], question: str) -> list[str]:
    said = set(cleaned(question).replace(",", " ").split()) if question.strip() else set()
    known = returned | {word.strip(".,;:!?$\"'()") for word in said}
    return [name for name in _named(found, given) if name not in known]


def _named(found: Proposable, given: Mapping[str, Any]) -> Iterator[str]:
    for name in found.names:
        value = given.get(name)
        yield from (str(one) for one in (value if isinstance(value, list | tuple) else [value]) if one is not None)


def _note_rogue(office: Office, kind: str, strange: Sequence[str], asker: Asker) -> None:
    with office.store.session() as session:
        audit.record(
            session, office.settings, "proposal_refused", act=kind, named=[one_line(one, 80) for one in strange],
            why="no tool of the turn returned it", by=asker.by, origin=asker.origin,
        )  # fmt: skip


def waiting(session: Session, by: str | None = None) -> Sequence[AskingProposal]:
    """Return proposals that wait for a person, the oldest first."""
    rows = select(AskingProposal).where(AskingProposal.state == OPEN, col(AskingProposal.expires_at) > utcnow())
    mine = rows.where(AskingProposal.by == by) if by is not None else rows
    return session.exec(mine.order_by(col(AskingProposal.created_at), col(AskingProposal.id))).all()


def newest(session: Session, most: int) -> Sequence[AskingProposal]:
    rows = select(AskingProposal).order_by(col(AskingProposal.created_at).desc(), col(AskingProposal.id).desc())
    return session.exec(rows.limit(most)).all()


def proposed(row: AskingProposal, settings: Settings) -> Proposed:
    """Return a proposal as a person reads it, with what became of it."""
    state = EXPIRED if row.state == OPEN and row.expires_at <= utcnow() else row.state
    return Proposed(
        **row.model_dump(
            include={
                *("id", "kind", "title", "lines", "cost", "account", "outside", "shown", "by", "origin", "expires_at"),
                "run_id",
            }
        ),
        scope=scope_of(row.kind), made_at=row.created_at, state=state, fate=_fate(row, state, settings),
    )  # fmt: skip


def _fate(row: AskingProposal, state: str, settings: Settings) -> str:
    if state == OPEN:
        return ""
    if state == EXPIRED:
        return f"expired unanswered at {_time(row.expires_at, settings)}"
    told = f": {row.outcome}" if row.outcome else ""
    if state in (CHANGED, REPLACED) or row.decided_by is None or row.decided_at is None:
        return f"{state}{told}"
    word = "confirmed" if state in (DONE, CONFIRMED, FAILED) else state
    ends = {DONE: "done", FAILED: "NOT done", CONFIRMED: "it is being done"}.get(state)
    at = _time(row.decided_at, settings)
    return f"{word} by {row.decided_by} at {at}" + (f"; {ends}{told}" if ends is not None else told)


def _time(at: dt.datetime, settings: Settings) -> str:
    from chordesk.models.exchanges import at_exchange

    return at_exchange(at, settings.exchange)
