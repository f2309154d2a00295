"""A person's answer to a proposal: once, within ten minutes, under their own scope, about what the card showed.

What is rows is done in the transaction of its record, so that a process that ends before it has done nothing, and one
that ends after it has done all. What is no row, a run or a halt, is marked first and done then: what dies between is
taken up by a worker's next pass, and a run has a slot of its own in the database, so that it is one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Sequence

import structlog
from sqlalchemy import update
from sqlmodel import Session, col, select

from chordesk.models.asking.proposals import AskingProposal
from chordesk.models.database.lookup import ACTS, by_prefix
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.orders import HASH_SHOWN
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.text import one_line
from chordesk.tasks.asking.proposing import (
    CHANGED,
    CONFIRMED,
    DISMISSED,
    DONE,
    EXPIRED,
    FAILED,
    OPEN,
    bound_now,
    checked,
    proposed,
)
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.proposals import Confirmed, Office, ProposalOutcome, ProposalScope, Proposed, find, scope_of
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tools.orders import audit
from chordesk.tools.orders.approvals import require_clock

log = structlog.get_logger(__name__)
LISTS = "`desk proposals list` shows them"
# What was confirmed and could not be done in this time is of something that is over.
LATEST = dt.timedelta(minutes=10)
LEFT = dt.timedelta(seconds=10)  # after which a pass takes up what another process was doing
_HASH = re.compile(HASH_SHOWN.strip("^$"))


def find_row(session: Session, id_: str, least: int = 1) -> AskingProposal:
    return by_prefix(session, AskingProposal, id_, least=least, lists=LISTS, noun="proposal")


def confirm(
    session: Session, office: Office, id_: str, expect: str, by: str, via: str, scopes: Collection[ProposalScope]
) -> AskingProposal:
    """Answer yes, in the caller's transaction, and return the proposal with what became of it: one that is over, or was
    confirmed before, is left as it is. expect: the hash of the card that the person saw. Raises UsageError for another
    card, and for a person who may not; DeskError of the act, which the caller's transaction then undoes."""
    row = _locked(session, id_)
    if row.state != OPEN:
        return row
    if row.expires_at <= (now := utcnow()):
        return _end(session, row, EXPIRED, "", None)
    require_clock(row.created_at)
    if (needed := scope_of(row.kind)) not in scopes:
        may = ", ".join(sorted(scopes)) or "only read"
        raise UsageError(f"{by} may not confirm this: it needs {needed}, and they may {may}", remedy=_remedy(needed))
    _require_shown(row, expect)
    kind = find(row.kind)
    arguments = checked(row.kind, kind, row.arguments)
    if differs := _differences(row.bound, bound_now(session, office, kind, arguments)):
        return _end(session, row, CHANGED, f"{differs}; nothing was done", None)
    if not _claimed(session, row, CONFIRMED, f"{by} via {via}", now):
        return _locked(session, id_)
    if kind.act is not None:
        done = kind.act(session, office, Confirmed(row.id, row.decided_by or by, now, arguments))
        _settle(session, row, done)
    _record(session, office, row, "proposal_confirmed")
    return row


def dismiss(session: Session, office: Office, id_: str, by: str, via: str) -> AskingProposal:
    """Answer no. One that is over is left as it is."""
    row = _locked(session, id_)
    if row.state == OPEN and _claimed(session, row, DISMISSED, f"{by} via {via}", utcnow()):
        _record(session, office, row, "proposal_dismissed")
    return row


def _locked(session: Session, id_: str) -> AskingProposal:
    found = find_row(session, id_, ACTS)
    return session.get_one(AskingProposal, found.id, with_for_update=True, populate_existing=True)


def _claimed(session: Session, row: AskingProposal, state: str, by: str, now: dt.datetime) -> bool:
    """Mark an open proposal; False where another answer came first."""
    values = {"state": state, "decided_by": by, "decided_at": now}
    open_ = (col(AskingProposal.id) == row.id, col(AskingProposal.state) == OPEN)
    marked = session.connection().execute(update(AskingProposal).where(*open_).values(**values))
    session.refresh(row)
    return bool(marked.rowcount)


def _require_shown(row: AskingProposal, expect: str) -> None:
    if not _HASH.fullmatch(expect):
        remedy = "give at least 12 of its letters, as `desk proposals show` has them"
        raise UsageError(f"{one_line(expect, 70)!r} is not the hash of a card", remedy=remedy)
    if not row.shown.startswith(expect):
        reason = f"the card that was shown ({expect[:12]}) is not this one ({row.shown[:12]}): {row.title}"
        raise UsageError(f"{reason}; nothing was done", remedy=f"look at it again: `desk proposals show {row.id}`")


def _differences(then: dict[str, str], now: dict[str, str]) -> str:
    names = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    return "; ".join(f"{name} was {then.get(name, 'none')}, is {now.get(name, 'none')}" for name in names)


def _remedy(needed: ProposalScope) -> str:
    if needed is ProposalScope.OPERATE:
        return "confirm it on the terminal, or with a token that may operate"
    return f"somebody who may {needed} confirms it, or the terminal does"


def _end(session: Session, row: AskingProposal, state: str, outcome: str, run_id: str | None) -> AskingProposal:
    row.state, row.outcome, row.run_id = state, outcome, run_id
    row.decided_at = row.decided_at or utcnow()
    session.add(row)
    session.flush()
    return row


def _settle(session: Session, row: AskingProposal, done: ProposalOutcome) -> None:
    _end(session, row, DONE if done.done else FAILED, one_line(done.text, 1_000), done.run_id)


def _record(session: Session, office: Office, row: AskingProposal, kind: str) -> None:
    facts = row.model_dump(mode="json", include={"title", "arguments", "account", "outside", "state", "outcome"})
    audit.record(
        session, office.settings, kind, proposal=row.id, act=row.kind, by=row.decided_by, asked_by=row.by,
        asked_from=row.origin, card=row.shown, **facts,
    )  # fmt: skip


def finish(office: Office, id_: str) -> None:
    """Do what a confirmation left to be done after its transaction: the act itself where it is no row, and messages to
    other processes. Does nothing for any other proposal, and nothing twice."""
    with office.store.read() as session:
        row = find_row(session, id_)
    kind = find(row.kind)
    arguments = checked(row.kind, kind, row.arguments)
    if row.state == CONFIRMED and kind.apart is not None and row.decided_at is not None:
        done = _done_apart(office, row)
        if done is not None:
            with office.store.session() as session:
                row = _locked(session, row.id)
                if row.state == CONFIRMED:
                    _settle(session, row, done)
                    _record(session, office, row, "proposal_done")
    if row.state == DONE and kind.after is not None:
        kind.after(office, arguments)


def _done_apart(office: Office, row: AskingProposal) -> ProposalOutcome | None:
    kind = find(row.kind)
    assert kind.apart is not None
    assert row.decided_at is not None
    late = utcnow() - row.decided_at > LATEST
    act = Confirmed(row.id, row.decided_by or "", row.decided_at, checked(row.kind, kind, row.arguments))
    try:
        return kind.apart(office, act)
    except DeskError as error:
        log.warning("proposal.not_done", id=row.id, act=row.kind, error=str(error))
        if error.retryable and not late:
            return None
        remedy = f"; {error.remedy}" if error.remedy else ""
        return ProposalOutcome(f"{error.args[0]}{remedy}", done=False)


def finish_left(app: DeskApp) -> dict[str, int]:
    """Do what was confirmed and is not done: by a process that opens no runs, or that ended before it."""
    office = Office(app.desk.settings, app.desk.store, lambda: app.desk, lambda: app)
    with office.store.read() as session:
        ids = left(session, utcnow() - LEFT)
    for id_ in ids:
        finish(office, id_)
    return {"finished": len(ids)}


def left(session: Session, before: dt.datetime) -> Sequence[str]:
    """Return what was confirmed before a moment and is not done."""
    of = (AskingProposal.state == CONFIRMED, col(AskingProposal.decided_at) < before)
    return session.exec(select(AskingProposal.id).where(*of).order_by(col(AskingProposal.decided_at))).all()


class People:
    """What is confirmed elsewhere than on a terminal, as `Confirms` of `tasks/proposals.py`."""

    def propose(self, office: Office, text: str, by: str, origin: str) -> list[Proposed] | None:
        from chordesk.tasks.asking.proposing import Asker, from_text

        row = from_text(office, text, Asker(by, origin))
        return None if row is None else [proposed(row, office.settings)]

    def find(self, session: Session, settings: Settings, id_: str) -> Proposed | None:
        row = session.get(AskingProposal, id_)
        return None if row is None else proposed(row, settings)

    def confirm(
        self,
        session: Session,
        office: Office,
        id_: str,
        expect: str,
        by: str,
        via: str,
        scopes: Collection[ProposalScope],
    ) -> Proposed:
        return proposed(confirm(session, office, id_, expect, by, via, scopes), office.settings)

    def dismiss(self, session: Session, office: Office, id_: str, by: str, via: str) -> Proposed:
        return proposed(dismiss(session, office, id_, by, via), office.settings)

    def finish(self, office: Office, id_: str) -> None:
        finish(office, id_)

    def left(self, session: Session) -> Sequence[str]:
        return left(session, utcnow())


def office_of(desk: Desk) -> Office:
    return Office(desk.settings, desk.store, lambda: desk)
