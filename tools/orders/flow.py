"""The funnel from a decision to its fills. Killed anywhere, it can be run again and does nothing twice."""

from __future__ import annotations

from sqlmodel import Session, col, select

from models.order_tables import Order, Preview
from models.orders import Denied, OrderOutcome
from models.settings import Settings
from models.states import ORDER_FINAL, OrderState
from models.store import Store
from models.tables import Decision
from tools.brokers.protocol import Broker
from tools.decimals import exact, plain
from tools.ledger import ensure_account
from tools.market.protocol import MarketData
from tools.orders import approvals, audit
from tools.orders.context import Sized, evaluate
from tools.orders.decisions import take_up, told
from tools.orders.drafts import draft_orders, load_decision
from tools.orders.fence import Seat
from tools.orders.notes import write_notes
from tools.orders.outcomes import LIVE_OFF, outcome
from tools.orders.previews import preview, terms_of
from tools.orders.snapshots import Snapshot, symbols_of
from tools.orders.states import advance, load_order, lock_order
from tools.orders.submitting import Funnel, Prices, carry, refuse

__all__ = ["LIVE_OFF", "process_decision"]


def process_decision(
    store: Store, settings: Settings, market: MarketData, broker: Broker, decision_id: str, seat: Seat | None = None
) -> list[OrderOutcome]:
    """Take every trading action of a decision as far as it may go, and say how far that was, by ordinal.

    All orders are drafted in one transaction, then each is checked and previewed, and only then, with
    settings.trader_live, each is approved or waits for a person, is submitted, and its fills are booked. Rows that are
    further along are left as they are, so that a second call returns the same outcomes.
    seat: the caller's place at the account's fence; without one the account is taken for this call.
    Raises OrderError when there is no such decision, FencedOff when another process submits for the account.
    """
    funnel = Funnel(store, settings, market, broker, seat or Seat(store, broker.name, f"decision {decision_id}"))
    if settings.trader_live:
        funnel.seat.hold()  # who is fenced off leaves the orders alone: it knows positions of a moment ago
    with store.session() as session:
        decision = load_decision(session, decision_id)
        ensure_account(session, decision.account, settings.starting_cash)
        ids = _draft(session, settings, market, decision)
    with store.read() as session:
        moving = [order for order in (load_order(session, id_) for id_ in ids) if order.state not in ORDER_FINAL]
        symbols = frozenset(symbols_of(session, moving, decision.account))
    if moving:
        prices = Prices(market, symbols)
        for order_id in ids:
            _preview(funnel, prices.now(), order_id)
        if settings.trader_live:
            for order_id in ids:
                _approve(funnel, order_id)
            carry(funnel, prices, ids)
    with store.session() as session:
        write_notes(session, settings, decision, market.clock.now())
    with store.read() as session:
        return [outcome(session, load_order(session, order_id), settings.trader_live) for order_id in ids]


def _draft(session: Session, settings: Settings, market: MarketData, decision: Decision) -> list[str]:
    first = take_up(session, decision)
    before = set(session.exec(select(Order.id).where(col(Order.decision_id) == decision.id)).all())
    ids = draft_orders(session, decision, market.clock.now(), settings.allow_short)
    if first:
        audit.record(session, settings, "decision", **told(session, decision))
    for order_id in ids:
        if order_id not in before:
            order = load_order(session, order_id)
            audit.record(session, settings, "drafted", order=order.id, **_asked(order))
            if order.state == OrderState.DENIED:
                audit.record(session, settings, "denied", order=order.id, **_why(order))
    return ids


def _asked(order: Order) -> dict[str, object]:
    names = ("run_id", "decision_id", "ordinal", "account", "symbol", "contract", "action", "side", "quantity")
    return {name: getattr(order, name) for name in (*names, "notional", "order_type", "limit_price")}


def _why(order: Order) -> dict[str, object]:
    return {
        "code": order.denial_code,
        "reason": order.denial_reason,
        "measured": order.measured,
        "limit": order.limit_text,
    }


def _preview(funnel: Funnel, snapshot: Snapshot, order_id: str) -> None:
    """Check a drafted order, and preview it if it is cleared."""
    settings, market, broker = funnel.settings, funnel.market.name, funnel.broker.name
    with funnel.store.session() as session:
        order = lock_order(session, order_id)
        if order.state != OrderState.DRAFTED:
            return
        found = evaluate(session, order, snapshot, settings, market, broker)
        if isinstance(found, Denied):
            refuse(session, settings, order, found)
            return
        note = _rounded(order, found)
        made = preview(order, found, snapshot.now, terms_of(session, settings, market, broker))
        advance(session, order, OrderState.PREVIEWED, message=note)
        session.add(made)
        session.flush()
        audit.record(
            session, settings, "previewed", order=order.id, payload=made.payload, payload_hash=made.payload_hash
        )


def _rounded(order: Order, sized: Sized) -> str | None:
    if order.quantity is None or exact(order.quantity) == exact(sized.ticket.quantity):
        return None
    return f"{plain(order.quantity)} shares asked; whole shares are traded: {plain(sized.ticket.quantity)}"


def _approve(funnel: Funnel, order_id: str) -> None:
    """Approve a previewed order by the policy, or let it wait for a person."""
    settings = funnel.settings
    with funnel.store.session() as session:
        order = lock_order(session, order_id)
        if order.state != OrderState.PREVIEWED:
            return
        found = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).one()
        if approvals.needs_person(settings, funnel.broker.real_money, found.notional):
            approvals.ask(session, settings, order, found)
            return
        advance(session, order, OrderState.APPROVED)
        facts = {"payload_hash": found.payload_hash, "policy": settings.approval or approvals.AUTO}
        audit.record(session, settings, "approved", order=order.id, **facts)
