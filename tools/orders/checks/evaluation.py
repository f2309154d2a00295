"""Evaluation of one order by the risk rules: its price and size, the account, and other orders' reservations."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR

from sqlmodel import Session, col, func, select

from models.contracts import multiplier_of
from models.errors import MarketError
from models.orders import AccountView, Cleared, DenialCode, Denied, OrderTicket, Reservation, RiskContext, RiskLimits
from models.research import Instrument, Rating
from models.settings import Settings
from models.states import TradingState
from models.tables.orders import Account, Order
from models.tables.runs import Candidate, Report, Run, Verdict, VerdictReport
from tools.decimals import exact, plain
from tools.ledger import account_view
from tools.market.clock import exchange_day
from tools.orders.halt.halting import trading_state
from tools.orders.records import reservations
from tools.orders.records.accounts import last_trade
from tools.orders.records.drafts import source_runs
from tools.orders.records.equity_marks import equity_levels
from tools.orders.records.snapshots import Snapshot
from tools.risk import bad_contract, check, deny, halted, limits_of, not_listed, underlying_of, unpriced


@dataclass(frozen=True, slots=True)
class SizedOrder:
    """A cleared order: whole shares or contracts, and the price and quote of its checks."""

    ticket: OrderTicket
    price: float
    priced_at: dt.datetime


def evaluate(
    session: Session,
    order: Order,
    snapshot: Snapshot,
    settings: Settings,
    market: str,
    broker: str,
    *,
    dry: bool = False,
) -> SizedOrder | Denied:
    """Price an order, size it in whole shares or contracts, and run it through every rule.

    The account's row is locked from here to the end of the transaction, so that two orders are never counted against
    the same room, and the day's equity mark is written. With `dry` neither happens, for a caller that only asks.
    """
    if not dry:
        session.get(Account, order.account, with_for_update=True)
    limits, (trading, why) = limits_of(settings), trading_state(session, settings, order.account)
    denied = _early_denial(order, snapshot, trading, why) or _denial_of_past_day(session, order, snapshot.now)
    if denied is not None:
        return denied
    traded = order.contract or order.symbol
    try:
        quote = snapshot.quote(traded)
    except MarketError as error:
        return unpriced(traded, str(error))
    price = max(quote.price, order.limit_price or 0.0)
    quantity = _whole_units(order, price)
    if quantity < 1:
        return _too_small(order, price, quantity)
    ticket = ticket_of(order, quantity, snapshot.now)
    context = _risk_context(session, order, snapshot, limits, market, broker, trading, why, keep=not dry)
    answer = check(ticket, context, limits)
    return SizedOrder(ticket, price, quote.at) if isinstance(answer, Cleared) else answer


def _early_denial(order: Order, snapshot: Snapshot, trading: TradingState, why: str) -> Denied | None:
    """Return a denial that needs no price. The rules repeat it for orders that have one."""
    if trading not in (TradingState.ACTIVE, TradingState.REDUCING):
        return halted(trading, why, order.account)
    if snapshot.listed(order.symbol) is False:
        return not_listed(order.symbol, known=True)
    if not order.contract:
        return None
    return bad_contract(order.symbol, order.contract, snapshot.now, order.action in ("open", "add"))


def _denial_of_past_day(session: Session, order: Order, now: dt.datetime) -> Denied | None:
    """Deny an order of a day before the account's last trade: what the account holds was not known on that day."""
    last, today = last_trade(session, order.account), exchange_day(now)
    day = today if last is None else exchange_day(last.market_at)
    if day <= today:
        return None
    reason = f"account {order.account} has traded on {day}: {today} is over for it; a home of its own can trade on it"
    return deny(DenialCode.MARKET_CLOSED, reason, f"{today}", f"{day} or later")


def _whole_units(order: Order, price: float) -> int:
    units = exact(order.notional or 0) / exact(price) if order.quantity is None else exact(order.quantity)
    return int(units.to_integral_value(ROUND_FLOOR))


def _too_small(order: Order, price: float, quantity: int) -> Denied:
    unit = f"contract {order.contract}" if order.contract else f"share of {order.symbol}"
    wanted = f"notional {plain(order.notional or 0)}" if order.quantity is None else f"{plain(order.quantity)} of it"
    reason = f"{wanted} at {plain(price)} is less than one {unit}"
    return deny(DenialCode.MALFORMED, reason, f"{quantity} whole", "at least 1 whole")


def ticket_of(order: Order, quantity: float | None = None, placed_at: dt.datetime | None = None) -> OrderTicket:
    names = ("account", "symbol", "action", "side", "order_type", "limit_price", "contract")
    fields = {name: getattr(order, name) for name in names}
    size = {"quantity": quantity if quantity is not None else order.quantity, "placed_at": placed_at or order.market_at}
    multiplier = multiplier_of(order.contract or order.symbol)
    return OrderTicket.model_validate({**fields, **size, "order_id": order.id, "multiplier": multiplier})


def _risk_context(
    session: Session,
    order: Order,
    snapshot: Snapshot,
    limits: RiskLimits,
    market: str,
    broker: str,
    trading: TradingState,
    why: str,
    *,
    keep: bool,
) -> RiskContext:
    runs = source_runs(session, order.run_id)
    rating, instrument, verdict_at = _verdict_basis(session, order)
    view = account_view(session, snapshot, order.account)
    reserved = reservations.reservations_of(session, order, view, limits)
    levels = equity_levels(session, order.account, view.equity, snapshot.now, keep=keep)
    return RiskContext(
        now=snapshot.now,
        trading=trading,
        trading_why=why,
        market_open=snapshot.market_open,
        next_open=snapshot.next_open,
        providers=tuple(run.provider for run in runs),
        markets=(market, *(run.market for run in runs)),
        broker=broker,
        rating=rating,
        verdict_at=verdict_at,
        instrument=instrument,
        listed=snapshot.listed(order.symbol),
        quote=snapshot.quote(order.contract or order.symbol),
        stated_notional=order.notional,
        sectors={symbol: snapshot.sector(symbol) for symbol in _symbols(order, view, reserved)},
        account=view,
        day_opening=levels.opening,
        high_water=levels.high_water,
        reservations=reserved,
        last_order_at=reservations.last_order_at(session, order, snapshot.now, limits),
        recent_orders=reservations.recent_orders(session, order),
        orders_today=reservations.orders_today(session, order, snapshot.now),
        rejections=reservations.rejections(session, order, snapshot.now, limits.max_consecutive_rejections),
        open_order=reservations.open_order(session, order),
        unresolved=reservations.unresolved(session, order),
    )


def _symbols(order: Order, view: AccountView, reserved: Iterable[Reservation]) -> set[str]:
    held = {underlying_of(position.symbol) for position in view.positions}
    return {order.symbol, *held, *(reservation.symbol for reservation in reserved)}


def _verdict_basis(session: Session, order: Order) -> tuple[Rating | None, Instrument | None, dt.datetime | None]:
    """Return the verdict's rating, the candidate's instrument, and the market time at which the verdict's run began,
    or of its oldest report if that is of an earlier run."""
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
