"""The ledger of event positions: opened once a run and question, paid out once, listed with the bankroll."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from chordesk.models.board.questions import QUESTION_FINAL, VENUES, QuestionState
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account
from chordesk.models.tables.questions import EventPosition, Question
from chordesk.tools.event_positions.fills import EventFill
from chordesk.tools.event_positions.sizing import NoStake, Purse, sized
from chordesk.tools.venues.markets import EventBook, Side, VenueMarket


@dataclass(frozen=True, slots=True)
class HeldEvent:
    """A position with its question."""

    position: EventPosition
    question: Question


@dataclass(frozen=True, slots=True)
class EventLedger:
    """An account's event positions. bankroll: start + realised, of which `staked` is in open positions."""

    account: str
    start: float
    realised: float
    bankroll: float
    staked: float
    positions: list[HeldEvent]


def open_event_position(
    session: Session,
    settings: Settings,
    *,
    run_id: str,
    question: Question,
    probability: float,
    market: VenueMarket,
    book: EventBook | None,
    at: dt.datetime | None = None,
) -> EventPosition | NoStake:
    """Write the position that a probability of YES is worth at the venue's prices and return it, or why there is none;
    that of an earlier call for the run and question is returned as it is. at: real time."""
    _lock(session, settings.account)
    if (earlier := _position(session, run_id, question.id)) is not None:
        return earlier
    if (obstacle := _obstacle(question, market)) is not None:
        return NoStake(obstacle)
    purse = purse_of(session, settings.account, settings.event_bankroll, question.id)
    fill = sized(market, book, probability, purse, settings.kelly_fraction)
    if isinstance(fill, NoStake):
        return fill
    row = _row(settings.account, run_id, question.id, probability, fill, at or utcnow())
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:  # another worker opened it a moment ago
        return _position(session, run_id, question.id) or NoStake("it could not be written")
    return row


def settle_event_positions(
    session: Session, question: Question, account: str, at: dt.datetime | None = None
) -> list[EventPosition]:
    """Pay out an account's open positions on a question that has ended and return those that this call paid out; none
    of a question that is open. A void one gives back what was paid. at: real time."""
    if question.state not in QUESTION_FINAL:
        return []
    mine = (EventPosition.question_id == question.id, EventPosition.account == account)
    waiting = session.exec(select(EventPosition).where(*mine, col(EventPosition.payout).is_(None))).all()
    paid = []
    for position in waiting:
        # One statement decides: of two workers that settle at once, the second finds it paid out.
        unpaid = (col(EventPosition.id) == position.id, col(EventPosition.payout).is_(None))
        values = {"payout": payout_of(position, question), "closed_at": at or utcnow()}
        if session.connection().execute(update(EventPosition).where(*unpaid).values(values)).rowcount == 1:
            session.refresh(position)
            paid.append(position)
    return paid


def payout_of(position: EventPosition, question: Question) -> float:
    """Return what a position pays: its shares times the outcome of its side, or its cost when the question is void."""
    if question.state == QuestionState.VOID or question.outcome is None:
        return position.cost
    return position.shares * (question.outcome if position.side == "yes" else 1 - question.outcome)


def purse_of(session: Session, account: str, start: float, question_id: str) -> Purse:
    """Return what an account has to stake on a question."""
    rows = session.exec(select(EventPosition).where(EventPosition.account == account)).all()
    bankroll = start + _realised(rows)
    held: dict[Side, float] = defaultdict(float)
    for row in rows:
        if row.payout is None and row.question_id == question_id:
            held["yes" if row.side == "yes" else "no"] += row.cost
    return Purse(bankroll, _staked(rows) / bankroll if bankroll > 0 else 1.0, dict(held))


def event_ledger(session: Session, account: str, start: float, *, only_open: bool = False) -> EventLedger:
    """Return the ledger of an account, the newest positions first."""
    rows = session.exec(
        select(EventPosition, Question)
        .join(Question, col(Question.id) == col(EventPosition.question_id))
        .where(EventPosition.account == account)
        .order_by(col(EventPosition.opened_at).desc(), col(EventPosition.id).desc())
    ).all()
    positions = [position for position, _ in rows]
    shown = [HeldEvent(*row) for row in rows if not only_open or row[0].payout is None]
    realised = _realised(positions)
    return EventLedger(account, start, realised, start + realised, _staked(positions), shown)


def _realised(rows: Sequence[EventPosition]) -> float:
    return sum(row.payout - row.cost for row in rows if row.payout is not None)


def _staked(rows: Sequence[EventPosition]) -> float:
    return sum(row.cost for row in rows if row.payout is None)


def _obstacle(question: Question, market: VenueMarket) -> str | None:
    """Return why nothing can be staked on a question, None when nothing is in the way."""
    if question.source not in VENUES:
        return f"the question is of {question.source}, which is no venue"
    if (question.source, question.external_id) != (market.venue, market.id):
        return f"the market {market.venue} {market.id} is not that of the question"
    if question.state != QuestionState.OPEN or market.state != "open":
        return f"the question is {question.state}, its market {market.state}"
    return None


def _row(
    account: str, run_id: str, question_id: str, probability: float, fill: EventFill, at: dt.datetime
) -> EventPosition:
    return EventPosition(
        account=account,
        run_id=run_id,
        question_id=question_id,
        side=fill.side,
        probability=probability,
        shares=fill.shares,
        price=fill.price,
        fee=fill.fee,
        cost=fill.cost,
        opened_at=at,
    )


def _position(session: Session, run_id: str, question_id: str) -> EventPosition | None:
    mine = (EventPosition.run_id == run_id, EventPosition.question_id == question_id)
    return session.exec(select(EventPosition).where(*mine)).first()


def _lock(session: Session, account: str) -> None:
    """Let no other worker stake for the account until this transaction ends: both would use the same heat."""
    session.get(Account, account, with_for_update=True)
