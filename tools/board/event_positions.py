"""Positions in event markets: what a stake buys, its size, the ledger of those that are open, and the stakes of a
run."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from chordesk.models.board.forecasts import VENUES
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.questions import QUESTION_FINAL, QuestionState
from chordesk.models.settings import Settings
from chordesk.models.tables.board import EventPosition, Question
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account
from chordesk.tools.board.venues.markets import (
    BookLevel,
    EventBook,
    EventVenue,
    FeeTerms,
    Side,
    VenueMarket,
    fee_per_share,
    shares_for,
    taker_fee,
)
from chordesk.tools.portfolio.size_bounds import full_kelly, kelly_bet

KELLY_FRACTION = 0.25  # share of Kelly's stake that is used
EVENT_BANKROLL = 1_000.0  # play money at the start
_CENT_SHARES = 100  # shares are bought to two decimals where a venue has parts of one


@dataclass(frozen=True, slots=True)
class EventFill:
    """Shares of a side that a stake buys. price: paid a share without the fee; cost: paid with the fee."""

    side: Side
    shares: float
    price: float
    fee: float

    @property
    def cost(self) -> float:
        return self.shares * self.price + self.fee

    @property
    def effective(self) -> float:
        return self.cost / self.shares


def best_price(market: VenueMarket, book: EventBook | None, side: Side) -> float | None:
    """Effective price of the first share, with its fee; None where none is for sale or the fee is not known."""
    if market.pool is not None:
        price = market.probability
        return None if price is None else price if side == "yes" else 1 - price
    offers = book.offers(side) if book is not None else ()
    if not offers or market.fee is None:
        return None
    return offers[0].price + fee_per_share(market.fee, offers[0].price)


def fill_of(market: VenueMarket, book: EventBook | None, side: Side, stake: float) -> EventFill | None:
    """Return the most shares of a side that a stake buys with its fee; None when it buys none."""
    if stake <= 0:
        return None
    if market.pool is not None:
        shares = shares_for(market.pool, side, stake)
        return EventFill(side, shares, stake / shares, 0.0) if shares > 0 else None
    offers = book.offers(side) if book is not None else ()
    if market.fee is None:
        return None
    return _from_book(offers, market.fee, side, stake)


def _from_book(offers: Sequence[BookLevel], fee: FeeTerms, side: Side, stake: float) -> EventFill | None:
    """Walk the offers from the best on. A venue that rounds fees up sells whole contracts."""
    parts = 1 if fee.cents else _CENT_SHARES
    shares = math.floor(_affordable(offers, fee, stake) * parts + 1e-9) / parts
    while shares > 0:
        found = _bought(offers, fee, side, shares)
        if found.cost <= stake + 1e-9:
            return found
        shares = round(shares - 1 / parts, 2)  # the fee was rounded up beyond the stake
    return None


def _affordable(offers: Sequence[BookLevel], fee: FeeTerms, stake: float) -> float:
    """Return the shares that a stake pays for, before the fee is rounded."""
    shares, left = 0.0, stake
    for level in offers:
        unit = level.price + fee_per_share(fee, level.price)
        size = min(level.size, left / unit) if unit > 0 else level.size
        shares, left = shares + size, left - size * unit
        if left <= 1e-12:
            break
    return shares


def _bought(offers: Sequence[BookLevel], fee: FeeTerms, side: Side, shares: float) -> EventFill:
    left, paid, fees = shares, 0.0, 0.0
    for level in offers:
        size = min(level.size, left)
        if size <= 0:
            break
        paid, fees, left = paid + size * level.price, fees + taker_fee(fee, level.price, size), left - size
    return EventFill(side, shares, paid / shares, fees)


MOST_HEAT = 0.5  # of the bankroll in open positions together; each can lose all that it cost
LEAST_STAKE = 0.01
_HALVINGS = 50


@dataclass(frozen=True, slots=True)
class Purse:
    """The money to stake."""

    bankroll: float  # the start plus realised results
    heat: float  # share of it in open positions
    held: dict[Side, float]  # their cost on the same question, by side

    @property
    def heat_left(self) -> float:
        return max(MOST_HEAT - self.heat, 0.0)


@dataclass(frozen=True, slots=True)
class NoStake:
    """Why nothing is staked."""

    reason: str


def sized(
    market: VenueMarket, book: EventBook | None, probability: float, purse: Purse, fraction: float
) -> EventFill | NoStake:
    """Return the purchase for a belief in YES. The stake s satisfies s <= l * (p - q(s)) / (1 - q(s)) * bankroll, q(s)
    being a share's average cost when s is spent: a large stake is dearer a share. Held shares of the same side count
    towards it, since both win or lose together."""
    if purse.bankroll <= 0:
        return NoStake(f"the bankroll is spent: {purse.bankroll:.2f}")
    prices: dict[Side, float | None] = {"yes": best_price(market, book, "yes"), "no": best_price(market, book, "no")}
    if not any(price is not None for price in prices.values()):
        return NoStake(_unsold(market, book))
    bet = kelly_bet(probability, prices["yes"], prices["no"], fraction)
    if bet is None:
        shown = ", ".join(f"{side} costs {price:.3f}" for side, price in prices.items() if price is not None)
        return NoStake(f"no edge for {probability:.3f}: {shown}")
    side: Side = "yes" if bet.side == "YES" else "no"
    if purse.held.get("no" if side == "yes" else "yes"):
        return NoStake(f"the other side is held already, and {side} would undo it")
    limit = min(bet.stake * purse.bankroll - purse.held.get(side, 0.0), purse.heat_left * purse.bankroll)
    if limit < LEAST_STAKE:
        return NoStake(
            "Kelly allows no more than is held already"
            if purse.heat_left * purse.bankroll >= LEAST_STAKE
            else f"open positions hold {purse.heat:.0%} of the bankroll, the limit is {MOST_HEAT:.0%}"
        )
    fill = _largest(market, book, side, bet.probability, purse, fraction, limit)
    return fill or NoStake(f"a stake of {limit:.2f} buys no whole share of {side}")


def _largest(
    market: VenueMarket, book: EventBook | None, side: Side, wins: float, purse: Purse, fraction: float, limit: float
) -> EventFill | None:
    """Return the fill of the largest stake up to the limit that Kelly still allows at its own average price."""

    def allowed(fill: EventFill) -> bool:
        target = fraction * full_kelly(wins, fill.effective) * purse.bankroll
        return fill.cost + purse.held.get(side, 0.0) <= target + 1e-9

    whole = fill_of(market, book, side, limit)
    if whole is not None and allowed(whole):
        return whole
    low, high, best = 0.0, limit, None
    for _ in range(_HALVINGS):
        stake = (low + high) / 2
        fill = fill_of(market, book, side, stake)
        if fill is not None and not allowed(fill):
            high = stake
        else:
            low, best = stake, fill or best
    return best


def _unsold(market: VenueMarket, book: EventBook | None) -> str:
    if market.pool is None and book is not None and market.fee is None:
        return f"{market.venue} does not state its fee"
    return f"{market.venue} has no offers"


@dataclass(frozen=True, slots=True)
class HeldEvent:
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
    only: str | None = None,
    at: dt.datetime | None = None,
) -> EventPosition | NoStake:
    """Write the position that a belief in YES is worth at the venue's prices, or return the reason for none. A position
    of an earlier call for the run and question is returned as it is. only: the one side that may be bought. at: real
    time."""
    _lock(session, settings.account)
    if (earlier := _position(session, run_id, question.id)) is not None:
        return earlier
    if (obstacle := _obstacle(question, market)) is not None:
        return NoStake(obstacle)
    purse = purse_of(session, settings.account, EVENT_BANKROLL, question.id)
    fill = sized(market, book, probability, purse, KELLY_FRACTION)
    if isinstance(fill, NoStake):
        return fill
    if only not in (None, fill.side):
        return NoStake(f"the desk reports an arbitrage that buys {only}, and the belief would buy {fill.side}")
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
    """Pay out an account's open positions on an ended question and return those paid by this call. A void question
    gives back the cost. at: real time."""
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
    rows = session.exec(select(EventPosition).where(EventPosition.account == account)).all()
    bankroll = start + _realised(rows)
    held: dict[Side, float] = defaultdict(float)
    for row in rows:
        if row.payout is None and row.question_id == question_id:
            held["yes" if row.side == "yes" else "no"] += row.cost
    return Purse(bankroll, _staked(rows) / bankroll if bankroll > 0 else 1.0, dict(held))


def event_ledger(session: Session, account: str, start: float, *, only_open: bool = False) -> EventLedger:
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


@dataclass(frozen=True, slots=True)
class Staked:
    """What was staked on a question. reason: why nothing was, empty where there is a position."""

    question_id: str
    position: EventPosition | None
    reason: str = ""


def stake_run(
    store: Store,
    settings: Settings,
    run_id: str,
    beliefs: Mapping[str, float],
    venues: Mapping[str, EventVenue],
    arbitrage: Mapping[str, str],
) -> list[Staked]:
    """Open the positions of a run and return one result for each question of a venue, in the order of `beliefs`.

    beliefs: probability of YES by question id; questions of no venue have no prices and are left out. arbitrage: the
    side that an arbitrage of the run buys, by question id; the other one is not bought. Venues are asked outside of any
    transaction. Repeating the call opens nothing twice, and asks nothing again for what is open.
    """
    with store.read() as session:
        questions = _questions(session, beliefs)
        done = _positions(session, run_id)
    found = []
    for question in (questions[one] for one in beliefs if one in questions):
        if question.id in done:
            found.append(Staked(question.id, done[question.id]))
            continue
        try:
            market, book = _offered(question, venues)
        except DeskError as error:
            found.append(Staked(question.id, None, str(error)))
            continue
        with store.session() as session:
            result = open_event_position(
                session,
                settings,
                run_id=run_id,
                question=session.get_one(Question, question.id),
                probability=beliefs[question.id],
                market=market,
                book=book,
                only=arbitrage.get(question.id),
            )
        found.append(
            Staked(question.id, None, result.reason) if isinstance(result, NoStake) else Staked(question.id, result)
        )
    return found


def _questions(session: Session, beliefs: Mapping[str, float]) -> dict[str, Question]:
    asked = select(Question).where(col(Question.id).in_(list(beliefs)), col(Question.source).in_(VENUES))
    return {row.id: row for row in session.exec(asked)}


def _positions(session: Session, run_id: str) -> dict[str, EventPosition]:
    mine = select(EventPosition).where(EventPosition.run_id == run_id)
    return {row.question_id: row for row in session.exec(mine)}


def _offered(question: Question, venues: Mapping[str, EventVenue]) -> tuple[VenueMarket, EventBook | None]:
    venue = venues.get(question.source)
    if venue is None:
        raise DeskError(f"{question.source} is not read: DESK_VENUES does not name it")
    market = venue.market(question.external_id)
    return market, venue.book(market) if market.state == "open" else None
