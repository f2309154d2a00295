"""The check of one order by the risk rules: its price and size, the account, other orders' reservations, the run's
settings, and what each rule measured."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pydantic import TypeAdapter
from sqlmodel import Session, col, func, select

from chordesk.models.answers import Frozen, Instrument, Rating
from chordesk.models.errors import MarketError
from chordesk.models.exchanges import EXCHANGES, exchange_code
from chordesk.models.market import Listing, Quote, legs_of, multiplier_of
from chordesk.models.money import Duty, FxRate, coded, pair_name
from chordesk.models.orders import (
    AccountView,
    Cleared,
    DenialCode,
    Denied,
    OrderTicket,
    Reservation,
    RiskContext,
)
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import ORDERS, snapshot
from chordesk.models.states import TradingState
from chordesk.models.tables.orders import Account, Order, OrderCheck, Position
from chordesk.models.tables.runs import Candidate, Report, Run, Verdict, VerdictReport
from chordesk.tools.books import duties_sum
from chordesk.tools.decimals import exact, plain
from chordesk.tools.ledger import account_money, bought_on, rate_of, value
from chordesk.tools.market.clock import account_day, day_of
from chordesk.tools.market.price_steps import Terms
from chordesk.tools.market.prices import at_cost
from chordesk.tools.orders import reservations
from chordesk.tools.orders.accounts import books_day, equity_levels
from chordesk.tools.orders.drafting import source_runs
from chordesk.tools.orders.halting import trading_state
from chordesk.tools.orders.snapshots import Snapshot
from chordesk.tools.rates import duties_of, exit_rate
from chordesk.tools.risk.amounts import exit_terms, no_rate, on_steps, unpriced
from chordesk.tools.risk.codes import deny, shown, variable_name
from chordesk.tools.risk.conduct import bad_contract, halted, not_listed
from chordesk.tools.risk.exposure import converted, gross_quote, net_price, underlying_of
from chordesk.tools.risk.pre_trade import Measured, check, measured


class RuleAnswer(Frozen):
    """One rule's answer on an order."""

    codes: list[DenialCode]  # its possible denials
    denied: Denied | None  # its denial, None when the order passed
    figure: str | None  # the measured figure, None where the rule has one only in a denial
    binds: bool  # False for a rule on entries and an order that only reduces


class RecordedChecks(Frozen):
    """The answers at a market time, in the order of the rules; none for an order without a price or size, which no
    rule saw."""

    at: dt.datetime
    answers: list[RuleAnswer]


_ANSWERS = TypeAdapter(list[RuleAnswer])


def keep(session: Session, order_id: str, at: dt.datetime, found: Sequence[Measured]) -> None:
    """Keep the answers in place of those of an earlier check, in the caller's transaction. at: market time."""
    answers = [
        RuleAnswer(codes=list(one.codes), denied=one.denied, figure=one.figure, binds=one.binds) for one in found
    ]
    session.merge(OrderCheck(order_id=order_id, market_at=at, answers=_ANSWERS.dump_python(answers, mode="json")))


def kept(session: Session, order_id: str) -> RecordedChecks | None:
    """Return an order's last answers; None for one that was not checked, or was before answers were kept."""
    row = session.get(OrderCheck, order_id)
    return None if row is None else RecordedChecks(at=row.market_at, answers=_ANSWERS.validate_python(row.answers))


_ENTRIES = ("open", "add")


@dataclass(frozen=True, slots=True)
class SizedOrder:
    """An order in whole shares or contracts, with the price and quote of its checks."""

    ticket: OrderTicket
    price: float
    priced_at: dt.datetime
    note: str | None = None  # why its terms differ from the request
    fx: FxRate | None = None  # rate of the price's currency into the account's; None where it is that one
    # why no price is known; then `price` is the average cost of the position, and a person decides
    unpriced: str | None = None
    duties: tuple[Duty, ...] = ()  # that it pays beside commission, in account currency


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment(SizedOrder):
    """A priced and sized order before its rules, with their input."""

    context: RiskContext
    limits: Settings


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
    the same room, the day's equity mark is written, and what each rule measured is kept. With `dry` none of it happens,
    for a caller that only asks.
    """
    found = assess(session, order, snapshot, settings, market, broker, dry=dry)
    if not dry:
        answers = () if isinstance(found, Denied) else measured(found.ticket, found.context, found.limits)
        keep(session, order.id, snapshot.now, answers)
    if isinstance(found, Denied):
        return found
    answer = check(found.ticket, found.context, found.limits)
    return found if isinstance(answer, Cleared) else answer


def assess(
    session: Session,
    order: Order,
    snapshot: Snapshot,
    settings: Settings,
    market: str,
    broker: str,
    *,
    dry: bool = False,
) -> Assessment | Denied:
    """Return the input of an order's rules, or the denial of an order that has no price or size. dry: as of
    `evaluate`."""
    if not dry:
        session.get(Account, order.account, with_for_update=True)
    trading, why = trading_state(session, settings, order.account)
    denied = _early_denial(order, snapshot, trading, why) or _denial_of_past_day(session, order, snapshot.now)
    if denied is not None:
        return denied
    quote, why_unpriced = _last_price(session, order, snapshot)
    if quote is None:
        return unpriced(order.contract or order.symbol, why_unpriced or "")
    price = max(quote.price, order.limit_price or 0.0, order.stop_price or 0.0)
    if order.legs:
        price = order.limit_price or 0.0
    fx = _rate_of(session, order, snapshot, settings)
    if isinstance(fx, Denied):
        return fx
    terms = snapshot.terms_of(order.symbol)
    quantity = _tradable(order, price, fx, terms)
    if quantity <= 0:
        return _too_small(order, price, fx, terms, account_money(session, settings, order.account).base)
    context = _risk_context(session, order, snapshot, settings, market, broker, (trading, why), quote, keep=not dry)
    net = _net(order, snapshot, why_unpriced)
    duties = _duties(order, snapshot, exact(price) * quantity, fx)
    known = {"unpriced": why_unpriced, "net": net, "fx": fx, "duties": float(duties_sum(duties))}
    context = context.model_copy(update=known)
    ticket, note = exit_terms(ticket_of(order, float(quantity), snapshot.now), context, settings)
    if order.symbol in snapshot.terms and not ticket.is_option:
        ticket, note = on_steps(ticket, context.band, terms, note, fx.currency if fx else context.account.currency)
    return Assessment(ticket, price, quote.at, note, fx, why_unpriced, duties, context=context, limits=settings)


def _duties(order: Order, snapshot: Snapshot, worth: Decimal, fx: FxRate | None) -> tuple[Duty, ...]:
    """Return what an order of shares pays beside commission if it fills as a whole. worth: in the price's currency."""
    if order.contract or order.legs:
        return ()
    listing = snapshot.listings.get(order.symbol) or Listing(symbol=order.symbol)
    return duties_of(order.symbol, listing.kind, order.side or "", Decimal(0), worth, fx)


def _rate_of(session: Session, order: Order, snapshot: Snapshot, settings: Settings) -> FxRate | Denied | None:
    """Return the rate of an order's price into the account's currency, None where it is in that. An entry is denied
    without one; an exit takes the newest, however old, else the one that the position was bought at."""
    traded, base = order.contract or order.symbol, account_money(session, settings, order.account).base
    held = session.get(Position, (order.account, traded))
    currency = (held.currency or base) if held is not None else snapshot.currency(traded)
    if currency == base:
        return None
    try:
        return rate_of(snapshot, currency, base)
    except MarketError as error:
        pair = pair_name(currency, base)
        if order.action in _ENTRIES or held is None:
            return no_rate(traded, pair, str(error.args[0]))
        found = exit_rate(session, order.account, traded, base, snapshot)
        return found or no_rate(traded, pair, str(error.args[0]))


def _last_price(session: Session, order: Order, snapshot: Snapshot) -> tuple[Quote | None, str | None]:
    """Return the last price, of whatever time. A closing order always gets one: without a market price the average
    cost, with the reason."""
    traded, legs = order.contract or order.symbol, legs_of(order.legs)
    try:
        if legs:
            return gross_quote(order.symbol, legs, {leg.contract: snapshot.quote(leg.contract) for leg in legs}), None
        return snapshot.quote(traded), None
    except MarketError as error:
        why = str(error)
    if legs and order.action not in _ENTRIES:
        return at_cost(traded, order.limit_price or 0.0, snapshot.now), why
    held = session.get(Position, (order.account, traded))
    if held is None or order.quantity is None or order.action in _ENTRIES:
        return None, why
    return at_cost(traded, held.average_cost, snapshot.now), why


def _net(order: Order, snapshot: Snapshot, unpriced: str | None) -> float | None:
    """None without legs or without a price."""
    legs = legs_of(order.legs)
    if not legs or unpriced is not None:
        return None
    prices = {leg.contract: exact(snapshot.quote(leg.contract).price) for leg in legs}
    return float(net_price(legs, prices, order.side or ""))


def _early_denial(order: Order, snapshot: Snapshot, trading: TradingState, why: str) -> Denied | None:
    """Return a denial that needs no price. The rules repeat it for orders that have one."""
    if trading not in (TradingState.ACTIVE, TradingState.REDUCING):
        return halted(trading, why, order.account)
    if snapshot.listed(order.symbol) is False and order.action in _ENTRIES:
        return not_listed(order.symbol, known=True)
    if order.action in _ENTRIES and (why_not := snapshot.terms_of(order.symbol).why_not) is not None:
        return deny(DenialCode.LOT, why_not, "steps or lot unknown", "a known price step and lot")
    if order.legs:
        found = (bad_contract(order.symbol, leg.contract, snapshot.now, False) for leg in legs_of(order.legs))
        return next((denied for denied in found if denied is not None), None)
    if not order.contract:
        return None
    return bad_contract(order.symbol, order.contract, snapshot.now, order.action in _ENTRIES)


def _denial_of_past_day(session: Session, order: Order, now: dt.datetime) -> Denied | None:
    """Deny an order of a day before the account's last trade: what the account holds was not known on that day."""
    day, today = books_day(session, order.account), account_day(now)
    if day is None or day <= today:
        return None
    reason = f"account {order.account} has traded on {day}: {today} is over for it; a home of its own can trade on it"
    return deny(DenialCode.MARKET_CLOSED, reason, f"{today}", f"{day} or later")


def _tradable(order: Order, price: float, fx: FxRate | None, terms: Terms) -> Decimal:
    """Return the whole shares or contracts of an order that can be traded; in lots where it opens or adds."""
    own = converted(exact(price), fx)
    units = exact(order.notional or 0) / own if order.quantity is None else exact(order.quantity)
    return terms.quantity(units, opens=order.action in _ENTRIES)


def _too_small(order: Order, price: float, fx: FxRate | None, terms: Terms, base: str) -> Denied:
    lot = terms.least if order.action in _ENTRIES else terms.part
    unit = f"contract {order.contract}" if order.contract else f"share of {order.symbol}"
    unit = unit if lot == 1 else f"lot of {plain(lot)} of {order.symbol}"
    wanted = f"{plain(order.quantity or 0)} of it"
    if order.quantity is None:
        wanted = f"notional {coded(plain(order.notional or 0), base)}"
    at = coded(plain(price), base)
    if fx is not None:
        at = f"{fx.currency} {plain(price)}, {plain(fx.rate)} of the account's currency,"
    reason = f"{wanted} at {at} is less than one {unit}"
    code = DenialCode.MALFORMED if lot == 1 else DenialCode.LOT
    return deny(code, reason, "0 whole", f"at least {plain(lot)} whole")


def ticket_of(order: Order, quantity: float | None = None, placed_at: dt.datetime | None = None) -> OrderTicket:
    names = ("account", "symbol", "action", "side", "order_type", "limit_price", "contract")
    terms = ("stop_price", "trail_percent", "time_in_force")
    fields = {name: getattr(order, name) for name in (*names, *terms)}
    size = {"quantity": quantity if quantity is not None else order.quantity, "placed_at": placed_at or order.market_at}
    multiplier = order.multiplier if order.legs else multiplier_of(order.contract or order.symbol)
    more = {"order_id": order.id, "multiplier": multiplier, "legs": legs_of(order.legs)}
    return OrderTicket.model_validate({**fields, **size, **more})


def _risk_context(
    session: Session,
    order: Order,
    snapshot: Snapshot,
    limits: Settings,
    market: str,
    broker: str,
    trading: tuple[TradingState, str],
    quote: Quote,
    *,
    keep: bool,
) -> RiskContext:
    runs = source_runs(session, order.run_id)
    rating, instrument, verdict_at = _verdict_basis(session, order)
    view = value(session, snapshot, order.account)
    reserved = reservations.reservations_of(session, order, view, limits)
    last = reservations.last_order(session, order, snapshot.now, limits)
    levels = equity_levels(session, view, snapshot.now, snapshot.previous_session, keep=keep)
    return RiskContext(
        now=snapshot.now,
        trading=trading[0],
        trading_why=trading[1],
        market_open=snapshot.hours_of(order.symbol).is_open,
        next_open=snapshot.hours_of(order.symbol).next_open,
        providers=tuple(run.provider for run in runs),
        markets=(market, *(run.market for run in runs)),
        broker=broker,
        rating=rating,
        verdict_at=verdict_at,
        instrument=instrument,
        listed=snapshot.listed(order.symbol),
        idle=snapshot.idle.get(order.symbol, 0),
        quote=quote,
        stated_notional=order.notional,
        sectors={symbol: snapshot.sector(symbol) for symbol in _symbols(order, view, reserved)},
        account=view,
        day_opening=levels.opening,
        day_opening_at=levels.since,
        high_water=levels.high_water,
        reservations=reserved,
        last_order_at=last.market_at if last else None,
        last_order=f"{last.side} {last.contract or last.symbol}" if last else "",
        band=snapshot.bands.get(order.symbol),
        bought_today=_bought_today(session, order, snapshot),
        earnings=snapshot.earnings.get(order.symbol),
        across_earnings=any(run.params.get("across_earnings") for run in runs),
        recent_orders=reservations.recent_orders(session, order),
        orders_today=reservations.orders_today(session, order, snapshot.now),
        rejections=reservations.rejections(session, order, snapshot.now, limits.max_consecutive_rejections),
        open_order=reservations.open_order(session, order),
        unresolved=reservations.unresolved(session, order),
        facts=snapshot.facts,
    )


def _bought_today(session: Session, order: Order, snapshot: Snapshot) -> float:
    """Return what was bought of an order's symbol on the exchange's day of now, where that is not sold before the next
    session. In a replay the order meets the next session anyway."""
    if EXCHANGES[exchange_code(order.symbol)].sells_same_day or snapshot.replayed:
        return 0.0
    return float(bought_on(session, order.account, order.symbol, day_of(snapshot.now, order.symbol)))


def _symbols(order: Order, view: AccountView, reserved: Iterable[Reservation]) -> set[str]:
    held = {underlying_of(position.symbol) for position in view.positions}
    return {order.symbol, *held, *(reservation.symbol for reservation in reserved)}


def _verdict_basis(session: Session, order: Order) -> tuple[Rating | None, Instrument | None, dt.datetime | None]:
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


# An order that only gives exposure back is bound by these alone: the limits are there for what adds it.
_OF_EXITS = ("broker", "trader_live", "approval")


def settings_denial(session: Session, settings: Settings, order: Order) -> Denied | None:
    """Return a denial for an order of a run that was opened with another live switch, broker or limit than this process
    has: neither the run's value nor this one may loosen the other. A run of a version before 0009 has none to compare.
    """
    kept = session.get_one(Run, order.run_id).settings
    if kept is None:
        return None
    here = snapshot(settings)
    names = _OF_EXITS if order.action in ("reduce", "close") else ORDERS
    wrong = [name for name in names if name in kept and kept[name] != here[name]]
    if not wrong:
        return None
    theirs, ours = _listed(kept, wrong), _listed(here, wrong)
    reason = f"the run was opened with {theirs}, and the trade worker has {ours}; a new run has the desk's settings"
    return deny(DenialCode.SETTINGS_DIFFER, reason, theirs, ours)


def _listed(values: dict[str, object], names: list[str]) -> str:
    return ", ".join(f"{variable_name(name)}={shown(values[name])}" for name in names)
