"""Protection: shares without a standing stop, and the protective orders that are placed for them, one each."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass
from decimal import Decimal

import structlog
from sqlmodel import Session, col, func, select

from chordesk.models.errors import DeskError, FencedOff
from chordesk.models.order_terms import parse_protection
from chordesk.models.orders import Denied
from chordesk.models.settings import Settings
from chordesk.models.states import OrderState, RunKind, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Order
from chordesk.models.tables.runs import Decision
from chordesk.tools.decimals import money, plain
from chordesk.tools.ledger import value
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.orders import accounts, audit, booking, halting, mandates
from chordesk.tools.orders.accounts import books_day
from chordesk.tools.orders.booking import advance
from chordesk.tools.orders.checking import SizedOrder, ticket_of
from chordesk.tools.orders.drafting import write_decision
from chordesk.tools.orders.previews import terms_of, write_preview
from chordesk.tools.orders.snapshots import Snapshot, take_snapshot
from chordesk.tools.orders.stops import (
    ProtectiveStop,
    ShareHolding,
    holdings,
    left_of,
    stop_for,
    trailed,
    working_protection,
)
from chordesk.tools.orders.submitting import SubmissionContext, book_answer, ensure_reconciled, withdraw

# After a refusal of the broker it is not asked again about the same symbol for so long.
REFUSED_FOR = dt.timedelta(minutes=15)
_UNANSWERED = (OrderState.SUBMITTING.value, OrderState.UNKNOWN.value)


@dataclass(frozen=True, slots=True)
class Unprotected:
    """Shares that ought to be protected and are not, with the reason. free: those among them that a stop could hold."""

    symbol: str
    quantity: float
    free: float
    why: str


def unprotected(session: Session, settings: Settings) -> list[Unprotected]:
    """Return the account's positions in shares without a standing stop for their whole quantity, by symbol; none while
    DESK_PROTECT is `none`."""
    if settings.protect == "none":
        return []
    found = (_uncovered(session, settings, holding) for holding in holdings(session, settings.account))
    return [row for row in found if row is not None]


def _uncovered(session: Session, settings: Settings, holding: ShareHolding) -> Unprotected | None:
    stops = working_protection(session, settings.account, holding.symbol)
    standing = sum((left_of(session, stop) for stop in stops if stop.state not in _UNANSWERED), Decimal(0))
    lacking, bound = abs(holding.held) - standing, abs(holding.held) - holding.free
    if lacking <= 0:
        return None
    reasons = [f"the broker's answer on stop {stop.id} is not known" for stop in stops if stop.state in _UNANSWERED]
    if lacking > bound and not reasons:
        reasons.append(obstacle(session, settings, holding.symbol) or "the next pass over the orders places it")
    if bound:
        reasons.append(f"{plain(bound)} are in other orders, bound by written calls or no whole share")
    free = max(lacking - bound, Decimal(0))
    return Unprotected(holding.symbol, float(lacking), float(free), "; ".join(reasons))


def obstacle(session: Session, settings: Settings, symbol: str) -> str | None:
    if not settings.trader_live:
        return "live trading is off (TRADER_LIVE is not 1)"
    state, why = halting.trading_state(session, settings, settings.account)
    if state is TradingState.HALTED:
        return f"trading is halted: {why or 'no reason given'}"
    last = session.exec(
        select(Order)
        .where(col(Order.account) == settings.account, col(Order.symbol) == symbol, col(Order.protects).is_not(None))
        .order_by(col(Order.updated_at).desc())
        .limit(1)
    ).first()
    if last is not None and last.state == OrderState.REJECTED and utcnow() - last.updated_at < REFUSED_FOR:
        minutes = f"{REFUSED_FOR / dt.timedelta(minutes=1):.0f} min"
        return f"the broker refused order {last.id}: {last.message}; it is asked again after {minutes}"
    if not settings.real_money:
        return None
    found = mandates.in_force(session, settings, settings.account)
    if isinstance(found, Denied):
        return found.reason
    return None if found.allows(symbol) else f"mandate {found.version} does not name {symbol}"


log = structlog.get_logger(__name__)

# Ordinals of protective orders within the decision of the order that they protect; actions have smaller ones.
FIRST_ORDINAL = 10_000
POLICY = "protection"


def place(context: SubmissionContext, symbol: str, snapshot: Snapshot) -> Unprotected | None:
    """Place the protective order of a symbol's free shares, unless one works already; return why it was not placed. It
    can only close a position, so rules on entries do not apply: it is sized under the account's lock, and needs that
    trading is not halted and, for real money, a mandate."""
    token = context.lease.acquire()
    with context.store.session() as session:
        accounts.require(session, context.broker.name, token)
        session.get(Account, context.broker.name, with_for_update=True)
        stop, holding = _wanted(session, context, symbol)
        if stop is None or holding is None or working_protection(session, context.broker.name, symbol):
            return None
        why = obstacle(session, context.settings, symbol)
        if why is not None:
            return Unprotected(symbol, float(stop.quantity), float(stop.quantity), why)
        order = _write(session, context, stop, holding)
        terms = terms_of(session, context.settings, context.market.name, context.broker.name)
        sized = SizedOrder(ticket_of(order), float(stop.reference), order.market_at)
        made = write_preview(session, context.settings, order, sized, order.market_at, terms)
        advance(session, order, OrderState.APPROVED)
        audit.record(
            session, context.settings, "approved", order=order.id, payload_hash=made.payload_hash, policy=POLICY
        )
        advance(session, order, OrderState.SUBMITTING, fence=token, sent_at=utcnow())
        facts = {"fence": token, "payload_hash": made.payload_hash}
        audit.record(session, context.settings, "submitting", order=order.id, **facts)
        ticket, view, order_id = ticket_of(order), value(session, snapshot, order.account), order.id
    book_answer(context, order_id, lambda: context.broker.submit(ticket, made, view))
    return None


def _wanted(
    session: Session, context: SubmissionContext, symbol: str
) -> tuple[ProtectiveStop | None, ShareHolding | None]:
    rule = parse_protection(context.settings.protect)
    holding = next(iter(holdings(session, context.broker.name, symbol)), None)
    if rule is None or holding is None or not holding.free:
        return None, holding
    stop = stop_for(rule, symbol, holding.held, holding.free, holding.cost)
    before = _trail_before(session, context.broker.name, holding, stop)
    return (stop if before is None else stop.raised(trailed(context.market, before))), holding


def _trail_before(session: Session, account: str, holding: ShareHolding, stop: ProtectiveStop) -> Order | None:
    """Return the last trail of the same terms since the position was opened: the new one goes on where it stood."""
    if stop.trail_percent is None or holding.since is None:
        return None
    which = [col(Order.account) == account, col(Order.symbol) == stop.symbol, col(Order.protects).is_not(None)]
    which += [col(Order.created_at) >= holding.since, col(Order.trail_percent) == stop.trail_percent]
    newest = select(Order).where(*which, col(Order.side) == stop.side).order_by(col(Order.created_at).desc())
    return session.exec(newest.limit(1)).first()


def _write(session: Session, context: SubmissionContext, stop: ProtectiveStop, holding: ShareHolding) -> Order:
    """Write the order's row in the decision of the order that opened the position, or in one of its own."""
    account, opened = context.broker.name, session.get(Order, holding.opened_by) if holding.opened_by else None
    why = f"DESK_PROTECT={context.settings.protect}: {plain(stop.quantity)} {stop.symbol}, cost {money(stop.reference)}"
    if opened is None:
        author = ("desk", POLICY)
        decision = write_decision(session, context.market, account, RunKind.PROTECT, author, why, [])
    else:
        decision = session.get_one(Decision, opened.decision_id)
    id_ = str(uuid.uuid4())
    order = Order(
        id=id_,
        run_id=decision.run_id,
        decision_id=decision.id,
        verdict_id=opened.verdict_id if opened else None,
        ordinal=_next_ordinal(session, decision.id),
        account=account,
        symbol=stop.symbol,
        action="close",
        side=stop.side,
        quantity=float(stop.quantity),
        order_type=stop.order_type,
        stop_price=float(stop.stop_price),
        trail_percent=stop.trail_percent,
        time_in_force="gtc",
        protects=opened.id if opened else id_,
        state=OrderState.DRAFTED.value,
        market_at=context.market.clock.now(),
    )
    session.add(order)
    session.flush()
    booking.state(session, order, None)
    names = ("run_id", "decision_id", "account", "symbol", "action", "side", "quantity", "order_type", "protects")
    terms = {name: getattr(order, name) for name in (*names, "stop_price", "trail_percent", "time_in_force")}
    audit.record(session, context.settings, "drafted", order=order.id, by=POLICY, why=why, **terms)
    return order


def _next_ordinal(session: Session, decision_id: str) -> int:
    last = session.exec(select(func.max(Order.ordinal)).where(col(Order.decision_id) == decision_id)).one()
    return max(FIRST_ORDINAL, (last if last is not None else 0) + 1)


def keep_protected(context: SubmissionContext, snapshot: Snapshot | None = None) -> list[Unprotected]:
    if not context.settings.trader_live or not _has_work(context) or ensure_reconciled(context) is not None:
        return []
    for order_id in misfits(context):
        withdraw(context, order_id)
    if parse_protection(context.settings.protect) is None:
        return []
    reasons = {}
    for holding in _bare(context):
        try:
            left = place(context, holding.symbol, snapshot or take_snapshot(context.market, ()))
        except FencedOff:
            raise
        except DeskError as error:
            left = Unprotected(holding.symbol, float(holding.free), float(holding.free), str(error))
        if left is not None:
            reasons[left.symbol] = left
    with context.store.read() as session:
        found = [reasons.get(row.symbol, row) for row in unprotected(session, context.settings) if row.free]
    for row in found:
        log.warning("orders.unprotected", symbol=row.symbol, quantity=row.quantity, why=row.why)
    return found


def _has_work(context: SubmissionContext) -> bool:
    """Return whether there is a rule or an order of one, on a day that is not over for the books."""
    with context.store.read() as session:
        if context.settings.protect == "none" and not working_protection(session, context.broker.name):
            return False
        day = books_day(session, context.broker.name)
    return day is None or exchange_day(context.market.clock.now()) >= day


def misfits(context: SubmissionContext) -> list[str]:
    """Return ids of working protective orders that do not fit their positions, the oldest first. Two on one symbol
    never fit. An order that could not be replaced now, as without a mandate, is better than none: it stays unless it
    would close more than is free."""
    rule = parse_protection(context.settings.protect)
    found = []
    with context.store.read() as session:
        held = {row.symbol: row for row in holdings(session, context.broker.name)}
        orders = working_protection(session, context.broker.name)
        symbols = [order.symbol for order in orders]
        for order in orders:
            holding, left = held.get(order.symbol), left_of(session, order)
            if holding is None or symbols.count(order.symbol) > 1 or _closes_more(order, left, holding):
                found.append(order.id)
            elif rule is not None:  # what was placed under a rule stays without one
                stop = stop_for(rule, order.symbol, holding.held, holding.free, holding.cost)
                if not stop.is_that_of(order, left) and obstacle(session, context.settings, order.symbol) is None:
                    found.append(order.id)
    return found


def _closes_more(order: Order, left: Decimal, holding: ShareHolding) -> bool:
    """Return whether a protective order could close more than is free, or would open."""
    return left > holding.free or (order.side == "sell") != (holding.held > 0)


def _bare(context: SubmissionContext) -> list[ShareHolding]:
    with context.store.read() as session:
        protected = {order.symbol for order in working_protection(session, context.broker.name)}
        return [row for row in holdings(session, context.broker.name) if row.free and row.symbol not in protected]
