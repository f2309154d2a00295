"""What the trade queue does each minute: questions nobody answered, the account against its broker, orders that were
approved, orders that were sent."""

from __future__ import annotations

from collections.abc import Iterable

from sqlmodel import Session, col, select

from models.order_tables import Order
from models.states import ORDER_WORKING, OrderState, TradingState
from models.tables import Decision
from tools.ledger import ensure_account
from tools.orders import approvals, halting
from tools.orders.notes import write_notes
from tools.orders.snapshots import symbols_of
from tools.orders.states import load_order
from tools.orders.submitting import Funnel, Prices, cancel, carry, compare

_OPEN = sorted({OrderState.APPROVED.value, *(state.value for state in ORDER_WORKING)})
Found = dict[str, int]


def tend(funnel: Funnel) -> Found:
    """Look after the account's orders once; what was found. Safe at any time and any number of times.

    With live trading off nobody talks to the broker. Raises FencedOff when another process submits for the account.
    """
    settings, account = funnel.settings, funnel.broker.name
    if not settings.trader_live:
        return {"expired": len(_expire(funnel))}
    funnel.seat.hold()
    with funnel.store.session() as session:
        ensure_account(session, account, settings.starting_cash)
    compare(funnel, settings.orders_seconds / 2)
    with funnel.store.read() as session:
        state, _ = halting.trading_state(session, settings, account)
        orders = open_orders(session, account)
        symbols = frozenset(symbols_of(session, orders, account))
    ids = [order.id for order in orders]
    if state is TradingState.HALTED:
        for order_id in ids:
            cancel(funnel, order_id)
    expired = _expire(funnel)  # after the cancels: they do not wait for what must be put on record
    if ids:
        carry(funnel, Prices(funnel.market, symbols), ids)
    _note(funnel, [*expired, *ids])
    return {"expired": len(expired), "open": len(ids)}


def _expire(funnel: Funnel) -> list[str]:
    with funnel.store.session() as session:
        return approvals.expire(session, funnel.settings)


def _note(funnel: Funnel, order_ids: Iterable[str]) -> None:
    """Renew the trader's notes on what has moved on."""
    with funnel.store.session() as session:
        decisions = dict.fromkeys(load_order(session, order_id).decision_id for order_id in order_ids)
        for decision_id in decisions:
            write_notes(session, funnel.settings, session.get_one(Decision, decision_id), funnel.market.clock.now())


def cancel_open(funnel: Funnel) -> list[str]:
    """Ask the broker to end every order that was sent; the ids of those that may still fill afterwards."""
    account = funnel.broker.name
    with funnel.store.read() as session:
        sent = [order.id for order in open_orders(session, account) if order.state != OrderState.APPROVED]
    for order_id in sent:
        cancel(funnel, order_id)
    with funnel.store.read() as session:
        return [order.id for order in open_orders(session, account) if order.state != OrderState.APPROVED]


def open_orders(session: Session, account: str) -> list[Order]:
    """Orders that are approved or were sent and have not ended, the oldest first."""
    rows = session.exec(
        select(Order)
        .where(col(Order.account) == account, col(Order.state).in_(_OPEN))
        .order_by(col(Order.created_at), col(Order.ordinal))
    )
    return list(rows.all())
