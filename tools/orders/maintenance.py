"""The pass of the trade queue each minute: expired approvals, reconciliation, approved orders, orders at the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlmodel import Session, col, select

from chordesk.models.errors import MarketError
from chordesk.models.states import ORDER_WORKING, OrderState
from chordesk.models.tables.orders import Account, Order
from chordesk.models.tables.runs import Decision
from chordesk.tools.ledger import account_view, ensure_account
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.orders.halt import halting
from chordesk.tools.orders.protection.keeping import keep_protected
from chordesk.tools.orders.reconciliation.reconcile import latest
from chordesk.tools.orders.records import approvals
from chordesk.tools.orders.records.equity_marks import equity_levels
from chordesk.tools.orders.records.snapshots import symbols_of
from chordesk.tools.orders.records.states import load_order
from chordesk.tools.orders.records.trader_notes import write_notes
from chordesk.tools.orders.submitting import (
    QuoteCache,
    SubmissionContext,
    cancel,
    cancel_disallowed,
    ensure_reconciled,
    submit_or_poll,
)

Counts = dict[str, int]


def maintain_orders(context: SubmissionContext, context_of: Callable[[str], SubmissionContext] | None = None) -> Counts:
    """Make one pass over the account's orders; return counts. Safe at any time and any number of times.

    context_of: by run id, the context with the market and day of that run; the same for all by default.

    With live trading off the broker is not called. Raises FencedOff when another process submits for the account.
    """
    settings, account = context.settings, context.broker.name
    if settings.trader_live:
        context.lease.acquire()  # first: a process that is fenced off leaves all of it to the one that is not
    halted = halting.enforce_file(context.store, settings, account, context.lease.owner)
    if not settings.trader_live:
        _record(context, halted)
        return {"expired": len(_expire(context))}
    with context.store.session() as session:
        ensure_account(session, account, settings.starting_cash)
    cancel_disallowed(context)  # first: on paper, looking an order up fills it, and reconciling does so
    _record(context, halted)  # after the cancels: they do not wait for the audit log
    unready = ensure_reconciled(context, settings.orders_seconds / 2)
    with context.store.read() as session:
        orders = open_orders(session, account)
        symbols = frozenset(symbols_of(session, orders, account))
    expired = _expire(context)  # after the cancels too
    quotes = QuoteCache(context.market, symbols)
    if unready is None:
        _mark_equity(context, quotes)
    for own, ids in _by_market(context, orders, context_of):
        submit_or_poll(own, quotes if own is context else QuoteCache(own.market, symbols), ids)
    bare = keep_protected(context, quotes.snapshot())
    _renew_notes(context, [*expired, *(order.id for order in orders)])
    return {"expired": len(expired), "open": len(orders), "unprotected": len(bare)}


def _by_market(
    context: SubmissionContext, orders: Sequence[Order], context_of: Callable[[str], SubmissionContext] | None
) -> list[tuple[SubmissionContext, list[str]]]:
    """Return the ids of orders by the context that they are sent and polled in, the earliest market time first."""
    found: dict[int, tuple[SubmissionContext, list[str]]] = {}
    for order in orders:
        own = context_of(order.run_id) if context_of is not None else context
        found.setdefault(id(own.market), (own, []))[1].append(order.id)
    return sorted(found.values(), key=lambda group: group[0].market.clock.now())


def end_earlier_days(context: SubmissionContext) -> None:
    """Poll the account's open orders of days before the context's: day orders end with their day."""
    account, today = context.broker.name, exchange_day(context.market.clock.now())
    with context.store.read() as session:
        orders = [row for row in open_orders(session, account) if exchange_day(row.market_at) < today]
        symbols = frozenset(symbols_of(session, orders, account))
    if orders:
        submit_or_poll(context, QuoteCache(context.market, symbols), [order.id for order in orders])


def _record(context: SubmissionContext, halted: halting.HaltRecord | None) -> None:
    if halted is not None:
        with context.store.session() as session:
            halting.record(session, context.settings, halted)


def _expire(context: SubmissionContext) -> list[str]:
    with context.store.session() as session:
        return approvals.expire(session, context.settings)


def _mark_equity(context: SubmissionContext, quotes: QuoteCache) -> None:
    """Record the account's equity while the exchange is open and the books agree with the broker's: losses are
    measured from it, and a day without an order has a high, too."""
    try:
        if not context.market.clock.is_open():
            return
    except MarketError:
        return
    snapshot, account = quotes.snapshot(), context.broker.name
    with context.store.session() as session:
        session.get_one(Account, account, with_for_update=True)
        reconciled = latest(session, account)
        if reconciled is None or not reconciled.agreed:
            return
        equity = account_view(session, snapshot, account).equity
        equity_levels(session, account, equity, snapshot.now, snapshot.previous_session, keep=True)


def _renew_notes(context: SubmissionContext, order_ids: Iterable[str]) -> None:
    """Renew the trader's notes on orders that may have changed."""
    with context.store.session() as session:
        decisions = dict.fromkeys(load_order(session, order_id).decision_id for order_id in order_ids)
        for decision_id in decisions:
            write_notes(session, context.settings, session.get_one(Decision, decision_id), context.market.clock.now())


def cancel_open(context: SubmissionContext, *, protective: bool = False) -> list[str]:
    """Cancel every order that was sent, those that protect a position only if asked; return the ids of those that may
    still fill afterwards."""
    for order_id in _sent(context, protective):
        cancel(context, order_id)
    return _sent(context, protective)


def _sent(context: SubmissionContext, protective: bool) -> list[str]:
    with context.store.read() as session:
        orders = [row for row in open_orders(session, context.broker.name) if row.state != OrderState.APPROVED]
    return [row.id for row in orders if protective or row.protects is None]


def open_orders(session: Session, account: str) -> list[Order]:
    """Return orders that are approved or were sent and have not ended, the oldest first."""
    rows = session.exec(
        select(Order)
        .where(col(Order.account) == account, col(Order.state).in_(ORDER_WORKING | {OrderState.APPROVED}))
        .order_by(col(Order.created_at), col(Order.ordinal))
    )
    return list(rows.all())
