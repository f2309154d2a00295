"""What the trade queue does each minute: questions nobody answered, the account against its broker, orders that were
approved, orders that were sent."""

from __future__ import annotations

from collections.abc import Iterable

from sqlmodel import Session, col, select

from models.errors import MarketError
from models.order_tables import Account, Order
from models.states import ORDER_WORKING, OrderState
from models.tables import Decision
from tools.ledger import account_view, ensure_account
from tools.orders import approvals, halting
from tools.orders.marks import equity_marks
from tools.orders.notes import write_notes
from tools.orders.reconcile import latest
from tools.orders.snapshots import symbols_of
from tools.orders.states import load_order
from tools.orders.submitting import Funnel, Prices, cancel, carry, compare, recall

_OPEN = sorted({OrderState.APPROVED.value, *(state.value for state in ORDER_WORKING)})
Found = dict[str, int]


def tend(funnel: Funnel) -> Found:
    """Look after the account's orders once; what was found. Safe at any time and any number of times.

    With live trading off nobody talks to the broker. Raises FencedOff when another process submits for the account.
    """
    settings, account = funnel.settings, funnel.broker.name
    if settings.trader_live:
        funnel.seat.hold()  # first: who is fenced off leaves all of it to the one who is not
    halted = halting.enforce(funnel.store, settings, account, funnel.seat.owner)
    if not settings.trader_live:
        _record(funnel, halted)
        return {"expired": len(_expire(funnel))}
    with funnel.store.session() as session:
        ensure_account(session, account, settings.starting_cash)
    recall(funnel)  # first: to ask paper about an order, as comparing does, is to fill it
    _record(funnel, halted)  # after the cancels: they do not wait for what must be put on record
    unready = compare(funnel, settings.orders_seconds / 2)
    with funnel.store.read() as session:
        orders = open_orders(session, account)
        symbols = frozenset(symbols_of(session, orders, account))
    ids = [order.id for order in orders]
    expired = _expire(funnel)  # after the cancels too
    prices = Prices(funnel.market, symbols)
    if unready is None:
        _mark(funnel, prices)
    if ids:
        carry(funnel, prices, ids)
    _note(funnel, [*expired, *ids])
    return {"expired": len(expired), "open": len(ids)}


def _record(funnel: Funnel, halted: halting.Halted | None) -> None:
    if halted is not None:
        with funnel.store.session() as session:
            halting.record(session, funnel.settings, halted)


def _expire(funnel: Funnel) -> list[str]:
    with funnel.store.session() as session:
        return approvals.expire(session, funnel.settings)


def _mark(funnel: Funnel, prices: Prices) -> None:
    """Write down what the account is worth while the exchange is open and the books agree with the broker's: losses are
    measured from it, and a day without an order has a high, too."""
    try:
        if not funnel.market.clock.is_open():
            return
    except MarketError:
        return
    snapshot, account = prices.now(), funnel.broker.name
    with funnel.store.session() as session:
        session.get_one(Account, account, with_for_update=True)
        compared = latest(session, account)
        if compared is None or not compared.agreed:
            return
        equity = account_view(session, snapshot, account).equity
        equity_marks(session, account, equity, snapshot.now, keep=True)


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
