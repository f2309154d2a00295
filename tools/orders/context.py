"""What the risk rules are told of one order: price, size, account, and what other orders have spoken for."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

from sqlalchemy import ColumnElement, and_, func, or_
from sqlmodel import Session, col, select

from models.errors import MarketError
from models.market import Quote
from models.order_tables import Order, Preview
from models.orders import AccountView, Cleared, DenialCode, Denied, OrderTicket, RiskContext, RiskLimits
from models.research import Instrument, Rating
from models.states import OrderState
from models.tables import Candidate, Verdict
from tools.decimals import exact, plain
from tools.ledger import account_view
from tools.market.protocol import MarketClock, MarketData
from tools.orders.drafts import source_runs
from tools.risk import check, cost, deny, opening_shares


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Quotes and clock read once, outside any transaction: a network must not be waited for while one is open."""

    now: dt.datetime
    market_open: bool | None
    next_open: dt.datetime | None
    quotes: dict[str, Quote]
    reasons: dict[str, str]

    def quote(self, symbol: str) -> Quote:
        if symbol not in self.quotes:
            raise MarketError(self.reasons.get(symbol, f"no quote of {symbol} was read"))
        return self.quotes[symbol]


def take_snapshot(market: MarketData, symbols: Iterable[str]) -> Snapshot:
    now = market.clock.now()
    quotes, reasons = {}, {}
    for symbol in sorted(set(symbols)):
        try:
            quote = market.quote(symbol)
        except MarketError as error:
            reasons[symbol] = str(error)
            continue
        if quote.at > now:
            reasons[symbol] = f"the quote of {symbol} is of {quote.at.isoformat()}, later than now"
        else:
            quotes[symbol] = quote
    return Snapshot(now, *_session_times(market.clock), quotes, reasons)


def _session_times(clock: MarketClock) -> tuple[bool | None, dt.datetime | None]:
    try:
        is_open = clock.is_open()
    except MarketError:
        return None, None
    try:
        return is_open, None if is_open else clock.next_open()
    except MarketError:
        return is_open, None


@dataclass(frozen=True, slots=True)
class Sized:
    """A cleared order: whole shares, and the price and quote its checks were made at."""

    ticket: OrderTicket
    price: float
    priced_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Pledged:
    cash: Decimal
    buys: Decimal
    sells: Decimal


def evaluate(
    session: Session, order: Order, snapshot: Snapshot, limits: RiskLimits, market: str, broker: str
) -> Sized | Denied:
    """Price an order, size it in whole shares, and run it through every rule. Nothing is written."""
    try:
        quote = snapshot.quote(order.symbol)
    except MarketError as error:
        return deny(
            DenialCode.UNPRICED, f"{order.symbol} has no price: {error}", "no price", "a price of now or before"
        )
    price = max(quote.price, order.limit_price or 0.0)
    quantity = _whole_shares(order, price)
    if quantity < 1:
        asked = (
            f"notional {plain(order.notional)}"
            if order.notional is not None
            else f"{plain(order.quantity or 0)} shares"
        )
        reason = f"{asked} at {plain(price)} is less than one share of {order.symbol}"
        return deny(DenialCode.MALFORMED, reason, f"{quantity} shares", "at least 1 share")
    ticket = ticket_of(order, quantity, snapshot.now)
    context = _context(session, order, snapshot, limits, market, broker, price)
    answer = check(ticket, context, limits)
    return Sized(ticket, price, quote.at) if isinstance(answer, Cleared) else answer


def _whole_shares(order: Order, price: float) -> int:
    asked = order.quantity
    shares = exact(asked) if asked is not None else exact(order.notional or 0) / exact(price)
    return int(shares.to_integral_value(ROUND_FLOOR))


def ticket_of(order: Order, quantity: float | None = None, placed_at: dt.datetime | None = None) -> OrderTicket:
    return OrderTicket.model_validate(
        {
            "order_id": order.id,
            "account": order.account,
            "symbol": order.symbol,
            "action": order.action,
            "side": order.side,
            "quantity": quantity if quantity is not None else order.quantity,
            "placed_at": placed_at or order.market_at,
            "order_type": order.order_type,
            "limit_price": order.limit_price,
        }
    )


def _context(
    session: Session, order: Order, snapshot: Snapshot, limits: RiskLimits, market: str, broker: str, price: float
) -> RiskContext:
    runs = source_runs(session, order.run_id)
    rating, instrument = _researched(session, order)
    view = account_view(session, snapshot, order.account)
    pledged = _pledged(session, order, view, limits)
    return RiskContext(
        now=snapshot.now,
        market_open=snapshot.market_open,
        next_open=snapshot.next_open,
        providers=tuple(run.provider for run in runs),
        markets=(market, *(run.market for run in runs)),
        broker=broker,
        rating=rating,
        instrument=instrument,
        price=price,
        account=view,
        pledged_cash=float(pledged.cash),
        pledged_buys=float(pledged.buys),
        pledged_sells=float(pledged.sells),
        last_order_at=_last_order_at(session, order, snapshot.now, limits),
    )


def _researched(session: Session, order: Order) -> tuple[Rating | None, Instrument | None]:
    verdict = session.get(Verdict, order.verdict_id) if order.verdict_id else None
    if verdict is None:
        return None, None
    candidate = session.get(Candidate, verdict.candidate_id)
    instruments = {instrument.value: instrument for instrument in Instrument}
    ratings = {rating.value: rating for rating in Rating}
    return ratings.get(verdict.rating), instruments.get(candidate.instrument) if candidate else None


def _earlier(order: Order) -> ColumnElement[bool]:
    """Orders of the same decision that were cleared before this one and are not sent yet."""
    return and_(
        col(Order.decision_id) == order.decision_id,
        col(Order.ordinal) < order.ordinal,
        col(Order.state) == OrderState.PREVIEWED.value,
    )


def _pledged(session: Session, order: Order, view: AccountView, limits: RiskLimits) -> Pledged:
    """What orders without a fill yet have spoken for; each side of a symbol counts as if the other never filled."""
    rows = session.exec(
        select(Order, Preview)
        .join(Preview, col(Preview.order_id) == col(Order.id))
        .where(col(Order.account) == order.account, col(Order.id) != order.id)
        .where(or_(col(Order.state) == OrderState.SUBMITTED.value, _earlier(order)))
        .order_by(col(Order.created_at), col(Order.ordinal))
    ).all()
    held = {position.symbol: exact(position.quantity) for position in view.positions}
    taken: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    cash = Decimal(0)
    for other, preview in rows:
        side, quantity = other.side or "", exact(other.quantity or 0)
        signed = 1 if side == "buy" else -1
        base = held.get(other.symbol, Decimal(0)) + signed * taken[other.symbol, side]
        cash += cost(opening_shares(base, side, quantity), exact(preview.price), limits)
        taken[other.symbol, side] += quantity
    return Pledged(cash, taken[order.symbol, "buy"], taken[order.symbol, "sell"])


def _last_order_at(session: Session, order: Order, now: dt.datetime, limits: RiskLimits) -> dt.datetime | None:
    """Market time of the last order on the symbol that was sent, or cleared earlier in this decision.

    A replay can be set back to before orders of a later day: those that far ahead have not happened yet.
    """
    horizon = now + dt.timedelta(hours=limits.cooldown_hours)
    sent = col(Order.state).in_([OrderState.SUBMITTED.value, OrderState.FILLED.value])
    return session.exec(
        select(func.max(Order.market_at))
        .where(col(Order.account) == order.account, col(Order.symbol) == order.symbol, col(Order.id) != order.id)
        .where(or_(sent, _earlier(order)), col(Order.market_at) <= horizon)
    ).one()
