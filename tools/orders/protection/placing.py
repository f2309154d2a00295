"""Placing a protective order: its row, preview and audit lines in one transaction, then the broker, once."""

from __future__ import annotations

import uuid

import structlog
from sqlmodel import Session, col, func, select

from chordesk.models.states import OrderState, RunKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Order
from chordesk.models.tables.runs import Decision
from chordesk.models.trading.protection import parse_protection
from chordesk.tools.decimals import money, plain
from chordesk.tools.ledger import account_view
from chordesk.tools.orders.audit import log as audit
from chordesk.tools.orders.checks.evaluation import SizedOrder, ticket_of
from chordesk.tools.orders.checks.previews import terms_of, write_preview
from chordesk.tools.orders.protection.coverage import Unprotected, obstacle
from chordesk.tools.orders.records import events, fence
from chordesk.tools.orders.records.decisions import write_decision
from chordesk.tools.orders.records.snapshots import Snapshot
from chordesk.tools.orders.records.states import advance
from chordesk.tools.orders.stops.holdings import ShareHolding, holdings, working_protection
from chordesk.tools.orders.stops.terms import ProtectiveStop, stop_for, trailed
from chordesk.tools.orders.submitting import SubmissionContext, book_answer

log = structlog.get_logger(__name__)

# Ordinals of protective orders within the decision of the order that they protect; actions have smaller ones.
FIRST_ORDINAL = 10_000
POLICY = "protection"


def place(context: SubmissionContext, symbol: str, snapshot: Snapshot) -> Unprotected | None:
    """Place the protective order of a symbol's free shares, unless one works already; return why it was not placed.

    It can only close what is held, so that no rule for orders that open applies to it: what it is sized by is read
    under the account's lock, and what it needs is that trading is not halted and, for real money, a mandate.
    """
    token = context.lease.acquire()
    with context.store.session() as session:
        fence.require(session, context.broker.name, token)
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
        ticket, view, order_id = ticket_of(order), account_view(session, snapshot, order.account), order.id
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
    events.state(session, order, None)
    names = ("run_id", "decision_id", "account", "symbol", "action", "side", "quantity", "order_type", "protects")
    terms = {name: getattr(order, name) for name in (*names, "stop_price", "trail_percent", "time_in_force")}
    audit.record(session, context.settings, "drafted", order=order.id, by=POLICY, why=why, **terms)
    return order


def _next_ordinal(session: Session, decision_id: str) -> int:
    last = session.exec(select(func.max(Order.ordinal)).where(col(Order.decision_id) == decision_id)).one()
    return max(FIRST_ORDINAL, (last if last is not None else 0) + 1)
