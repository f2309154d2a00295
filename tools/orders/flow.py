"""From a decision to its fills. The process may be killed anywhere; a second call does nothing twice."""

from __future__ import annotations

from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.orders import Denied, OrderOutcome
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_FINAL, OrderState
from chordesk.models.tables.orders import Order, Preview
from chordesk.models.tables.runs import Decision
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.decimals import exact, plain
from chordesk.tools.ledger import ensure_account
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.audit import log as audit
from chordesk.tools.orders.checks.agreement import settings_denial
from chordesk.tools.orders.checks.evaluation import SizedOrder, evaluate
from chordesk.tools.orders.checks.previews import terms_of, waits_for_person, write_preview
from chordesk.tools.orders.maintenance import end_earlier_days
from chordesk.tools.orders.protection.keeping import keep_protected
from chordesk.tools.orders.records import approvals
from chordesk.tools.orders.records.decisions import claim_decision, decision_facts
from chordesk.tools.orders.records.drafts import draft_orders, load_decision
from chordesk.tools.orders.records.fence import FencingLease
from chordesk.tools.orders.records.outcomes import outcome
from chordesk.tools.orders.records.snapshots import Snapshot, symbols_of
from chordesk.tools.orders.records.states import advance, load_order, lock_order
from chordesk.tools.orders.records.trader_notes import write_notes
from chordesk.tools.orders.submitting import QuoteCache, SubmissionContext, deny_and_record, submit_or_poll


def process_decision(
    store: Store,
    settings: Settings,
    market: MarketData,
    broker: Broker,
    decision_id: str,
    lease: FencingLease | None = None,
) -> list[OrderOutcome]:
    """Take every trading action of a decision as far as it may go; return the outcomes by ordinal.

    All orders are drafted in one transaction, then each is checked and previewed, and only then, with
    settings.trader_live, each is approved or waits for a person, is submitted, and its fills are booked. Rows that are
    further along are left as they are, so that a second call returns the same outcomes. lease: the caller's right to
    submit for the account; without one it is taken for this call. Raises OrderError when there is no such decision,
    FencedOff when another process submits for the account.
    """
    context = SubmissionContext(
        store, settings, market, broker, lease or FencingLease(store, broker.name, f"decision {decision_id}")
    )
    if settings.trader_live:
        context.lease.acquire()  # a process that is fenced off leaves the orders alone: its positions are outdated
    with store.session() as session:
        decision = load_decision(session, decision_id)
        ensure_account(session, decision.account, settings.starting_cash)
        ids = _draft(session, settings, market, decision)
    with store.read() as session:
        moving = [order for order in (load_order(session, id_) for id_ in ids) if order.state not in ORDER_FINAL]
        symbols = frozenset(symbols_of(session, moving, decision.account))
    if settings.trader_live:
        end_earlier_days(context)
    if moving:
        quotes = QuoteCache(market, symbols)
        for order_id in ids:
            _preview(context, quotes.snapshot(), order_id)
        if settings.trader_live:
            for order_id in ids:
                _approve(context, order_id)
            submit_or_poll(context, quotes, ids)
    if settings.trader_live:
        keep_protected(context)
    with store.session() as session:
        write_notes(session, settings, decision, market.clock.now())
    with store.read() as session:
        return [outcome(session, load_order(session, order_id), settings.trader_live) for order_id in ids]


def _draft(session: Session, settings: Settings, market: MarketData, decision: Decision) -> list[str]:
    first = claim_decision(session, decision)
    before = set(session.exec(select(Order.id).where(col(Order.decision_id) == decision.id)).all())
    ids = draft_orders(session, decision, market.clock.now(), settings.allow_short)
    if first:
        audit.record(session, settings, "decision", **decision_facts(session, decision))
    for order_id in ids:
        if order_id not in before:
            order = load_order(session, order_id)
            audit.record(session, settings, "drafted", order=order.id, **_order_facts(order))
            if order.state == OrderState.DENIED:
                audit.record(session, settings, "denied", order=order.id, **_denial_facts(order))
    return ids


def _order_facts(order: Order) -> dict[str, object]:
    names = ("run_id", "decision_id", "ordinal", "account", "symbol", "contract", "action", "side", "quantity")
    terms = ("notional", "order_type", "limit_price", "stop_price", "trail_percent", "time_in_force")
    facts: dict[str, object] = {name: getattr(order, name) for name in (*names, *terms)}
    return {**facts, "legs": order.legs} if order.legs else facts


def _denial_facts(order: Order) -> dict[str, object]:
    stated = {"reason": order.denial_reason, "measured": order.measured, "limit": order.limit_text}
    return {"code": order.denial_code, **stated}


def _preview(context: SubmissionContext, snapshot: Snapshot, order_id: str) -> None:
    """Check a drafted order, and preview it if it is cleared."""
    settings, market, broker = context.settings, context.market.name, context.broker.name
    with context.store.session() as session:
        order = lock_order(session, order_id)
        if order.state != OrderState.DRAFTED:
            return
        differs = settings_denial(session, settings, order)
        found = differs or evaluate(session, order, snapshot, settings, market, broker)
        if isinstance(found, Denied):
            deny_and_record(session, settings, order, found)
            return
        note, terms = _note(order, found), terms_of(session, settings, market, broker)
        write_preview(session, settings, order, found, snapshot.now, terms, note)


def _note(order: Order, sized: SizedOrder) -> str | None:
    """Return in what the order differs from what was asked, None when it does not."""
    notes = [sized.note] if sized.note else []
    if sized.unpriced is not None:
        notes.append(f"no price is known ({sized.unpriced}); at its average cost until a person decides")
    if order.quantity is not None and exact(order.quantity) != exact(sized.ticket.quantity):
        whole = plain(sized.ticket.quantity)
        notes.append(f"{plain(order.quantity)} shares requested; whole shares are traded: {whole}")
    return "; ".join(notes) or None


def _approve(context: SubmissionContext, order_id: str) -> None:
    """Approve a previewed order by the policy, or let it wait for a person."""
    settings = context.settings
    with context.store.session() as session:
        order = lock_order(session, order_id)
        if order.state != OrderState.PREVIEWED:
            return
        found = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).one()
        if waits_for_person(settings, context.broker.real_money, found):
            approvals.request_approval(session, settings, order, found)
            return
        advance(session, order, OrderState.APPROVED)
        facts = {"payload_hash": found.payload_hash, "policy": settings.approval or approvals.AUTO}
        audit.record(session, settings, "approved", order=order.id, **facts)
