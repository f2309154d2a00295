"""What the risk rules are told of one order: price, size, account, and what other orders have spoken for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR

from sqlmodel import Session, col, func, select

from models.contracts import multiplier_of
from models.errors import MarketError
from models.order_tables import Account, Order
from models.orders import AccountView, Cleared, DenialCode, Denied, OrderTicket, Pledge, RiskContext, RiskLimits
from models.research import Instrument, Rating
from models.settings import Settings
from models.states import TradingState
from models.tables import Candidate, Report, Run, Verdict, VerdictReport
from tools.decimals import exact, plain
from tools.ledger import account_view
from tools.orders import pledges
from tools.orders.drafts import source_runs
from tools.orders.halting import trading_state
from tools.orders.marks import equity_marks
from tools.orders.snapshots import Snapshot
from tools.risk import bad_contract, check, deny, halted, limits_of, not_listed, underlying_of, unpriced


@dataclass(frozen=True, slots=True)
class Sized:
    """A cleared order: whole shares or contracts, and the price and quote its checks were made at."""

    ticket: OrderTicket
    price: float
    priced_at: dt.datetime


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an order is looked at with."""

    order: Order
    snapshot: Snapshot
    settings: Settings
    limits: RiskLimits
    market: str
    broker: str
    dry: bool


def evaluate(
    session: Session,
    order: Order,
    snapshot: Snapshot,
    settings: Settings,
    market: str,
    broker: str,
    *,
    dry: bool = False,
) -> Sized | Denied:
    """Price an order, size it in whole shares or contracts, and run it through every rule.

    The account's row is locked from here to the end of the transaction, so that two orders are never counted against
    the same room, and the day's equity mark is written. With `dry` neither happens: the look of somebody who only asks.
    """
    if not dry:
        session.get(Account, order.account, with_for_update=True)
    asked = _Asked(order, snapshot, settings, limits_of(settings), market, broker, dry)
    trading, why = trading_state(session, settings, order.account)
    denied = _barred(asked, trading, why)
    if denied is not None:
        return denied
    traded = order.contract or order.symbol
    try:
        quote = snapshot.quote(traded)
    except MarketError as error:
        return unpriced(traded, str(error))
    price = max(quote.price, order.limit_price or 0.0)
    quantity = _whole(order, price)
    if quantity < 1:
        return _too_small(order, price, quantity)
    ticket = ticket_of(order, quantity, snapshot.now)
    answer = check(ticket, _context(session, asked, trading, why), asked.limits)
    return Sized(ticket, price, quote.at) if isinstance(answer, Cleared) else answer


def _barred(asked: _Asked, trading: TradingState, why: str) -> Denied | None:
    """What can be said before there is a price. The rules say the same again of whatever has one."""
    order, snapshot = asked.order, asked.snapshot
    if trading not in (TradingState.ACTIVE, TradingState.REDUCING):
        return halted(trading, why, order.account)
    if snapshot.listed(order.symbol) is False:
        return not_listed(order.symbol, known=True)
    if not order.contract:
        return None
    return bad_contract(order.symbol, order.contract, snapshot.now, order.action in ("open", "add"))


def _whole(order: Order, price: float) -> int:
    asked = order.quantity
    shares = exact(asked) if asked is not None else exact(order.notional or 0) / exact(price)
    return int(shares.to_integral_value(ROUND_FLOOR))


def _too_small(order: Order, price: float, quantity: int) -> Denied:
    unit = f"contract {order.contract}" if order.contract else f"share of {order.symbol}"
    asked = f"{plain(order.quantity)} of it" if order.quantity is not None else f"notional {plain(order.notional or 0)}"
    reason = f"{asked} at {plain(price)} is less than one {unit}"
    return deny(DenialCode.MALFORMED, reason, f"{quantity} whole", "at least 1 whole")


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
            "contract": order.contract,
            "multiplier": multiplier_of(order.contract or order.symbol),
        }
    )


def _context(session: Session, asked: _Asked, trading: TradingState, why: str) -> RiskContext:
    order, snapshot, limits = asked.order, asked.snapshot, asked.limits
    runs = source_runs(session, order.run_id)
    rating, instrument, verdict_at = _researched(session, order)
    view = account_view(session, snapshot, order.account)
    pledged = pledges.pledges(session, order, view, limits)
    marks = equity_marks(session, order.account, view.equity, snapshot.now, keep=not asked.dry)
    return RiskContext(
        now=snapshot.now,
        trading=trading,
        trading_why=why,
        market_open=snapshot.market_open,
        next_open=snapshot.next_open,
        providers=tuple(run.provider for run in runs),
        markets=(asked.market, *(run.market for run in runs)),
        broker=asked.broker,
        rating=rating,
        verdict_at=verdict_at,
        instrument=instrument,
        listed=snapshot.listed(order.symbol),
        quote=snapshot.quote(order.contract or order.symbol),
        stated_notional=order.notional,
        sectors={symbol: snapshot.sector(symbol) for symbol in _symbols(order, view, pledged)},
        account=view,
        day_opening=marks.opening,
        high_water=marks.high_water,
        pledges=pledged,
        last_order_at=pledges.last_order_at(session, order, snapshot.now, limits),
        recent_orders=pledges.recent_orders(session, order),
        orders_today=pledges.orders_today(session, order, snapshot.now),
        rejections=pledges.rejections(session, order, snapshot.now, limits.max_consecutive_rejections),
        open_order=pledges.open_order(session, order),
        unresolved=pledges.unresolved(session, order),
    )


def _symbols(order: Order, view: AccountView, pledged: Iterable[Pledge]) -> set[str]:
    held = {underlying_of(position.symbol) for position in view.positions}
    return {order.symbol, *held, *(pledge.symbol for pledge in pledged)}


def _researched(session: Session, order: Order) -> tuple[Rating | None, Instrument | None, dt.datetime | None]:
    """The verdict's rating, the candidate's instrument, and since when what the verdict rests on is known: the market
    time at which its run began, or of its oldest report if that is of an earlier run."""
    verdict = session.get(Verdict, order.verdict_id) if order.verdict_id else None
    if verdict is None:
        return None, None, None
    candidate = session.get(Candidate, verdict.candidate_id)
    run = session.get(Run, verdict.run_id)
    instruments = {instrument.value: instrument for instrument in Instrument}
    ratings = {rating.value: rating for rating in Rating}
    instrument = instruments.get(candidate.instrument) if candidate else None
    oldest = session.exec(
        select(func.min(Report.market_at))
        .join(VerdictReport, col(VerdictReport.report_id) == col(Report.id))
        .where(VerdictReport.verdict_id == verdict.id)
    ).one()
    since = [at for at in (run.market_now if run else None, oldest) if at is not None]
    return ratings.get(verdict.rating), instrument, min(since, default=None)
