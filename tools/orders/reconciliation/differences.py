"""Differences between a broker's account and the desk's books."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.orders import BrokerState
from chordesk.models.states import ORDER_WORKING, OrderState
from chordesk.models.tables.orders import Fill, Order, Position
from chordesk.tools.decimals import exact, plain

# One line of a reconciliation: kind, the figures of the desk and the broker, and `repaired` for corrected books.
Difference = dict[str, Any]

_ALWAYS_CHECKED = (OrderState.SUBMITTING, OrderState.UNKNOWN)
NONE = Decimal(0)


def difference(kind: str, *, repaired: bool = False, **facts: Any) -> Difference:
    return {"kind": kind, **facts, "repaired": repaired}


def diverged_orders(session: Session, state: BrokerState) -> list[str]:
    """Return ids of our orders that the broker holds in another state: working here and not open there, or filled
    further."""
    open_there = {order.client_id: exact(order.filled) for order in state.open_orders}
    filled_there = _filled(state)
    named = open_there.keys() | filled_there.keys()
    found = []
    for order in _ours(session, state.account, named):
        there = max(open_there.get(order.id, NONE), filled_there.get(order.id, NONE))
        lost = order.state in ORDER_WORKING and order.id not in open_there
        if lost or order.state in _ALWAYS_CHECKED or there > filled_here(session, order.id):
            found.append(order.id)
    return found


def _ours(session: Session, account: str, named: Collection[str]) -> Sequence[Order]:
    working = session.exec(select(Order).where(col(Order.account) == account, col(Order.state).in_(ORDER_WORKING)))
    reported = session.exec(select(Order).where(col(Order.account) == account, col(Order.id).in_(named)))
    rows = {order.id: order for order in (*working, *reported)}
    return sorted(rows.values(), key=lambda order: (order.created_at, order.id))


def _filled(state: BrokerState) -> dict[str, Decimal]:
    """Return filled quantity by client order id."""
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in state.fills:
        if row.client_id is not None:
            found[row.client_id] += exact(row.fill.quantity)
    return dict(found)


def filled_here(session: Session, order_id: str) -> Decimal:
    rows = session.exec(select(Fill.quantity).where(col(Fill.order_id) == order_id))
    return sum((exact(quantity) for quantity in rows), NONE)


def position_here(session: Session, account: str, symbol: str) -> Decimal:
    row = session.get(Position, (account, symbol), populate_existing=True)
    return exact(row.quantity) if row else NONE


def position_there(state: BrokerState, symbol: str) -> Decimal:
    return sum((exact(row.quantity) for row in state.positions if row.symbol == symbol), NONE)


def unexplained(session: Session, state: BrokerState, adopted: Collection[str]) -> list[Difference]:
    """Return differences that no order of ours explains. adopted: ids of fills that a person has taken over."""
    found = [*positions(session, state), *unknown_orders(session, state), *fills(session, state, adopted)]
    if state.blocked:
        found.append(difference("blocked", broker=state.blocked))
    return found


def positions(session: Session, state: BrokerState) -> list[Difference]:
    here = set(session.exec(select(Position.symbol).where(col(Position.account) == state.account)))
    found = []
    for symbol in sorted(here | {row.symbol for row in state.positions}):
        ours, theirs = position_here(session, state.account, symbol), position_there(state, symbol)
        if ours != theirs:
            found.append(difference("position", symbol=symbol, desk=plain(ours), broker=plain(theirs)))
    return found


def unknown_orders(session: Session, state: BrokerState) -> list[Difference]:
    """Return open orders that we did not send, or that have ended in our books."""
    found = []
    for row in state.open_orders:
        order = session.get(Order, row.client_id)
        if order is not None and order.account == state.account and order.state in ORDER_WORKING:
            continue
        ours = "no such order" if order is None else f"state {order.state}"
        theirs = f"open: {row.side} {plain(row.quantity)}"
        found.append(difference("order", id=row.client_id, symbol=row.symbol, desk=ours, broker=theirs))
    return found


def fills(session: Session, state: BrokerState, adopted: Collection[str]) -> list[Difference]:
    """Return fills of orders that are not ours, and of ours beyond what could be booked."""
    found = []
    for row in state.fills:
        key = f"{row.broker_order_id}/{row.fill.id}"
        if key in adopted or (row.client_id is not None and session.get(Order, row.client_id) is not None):
            continue
        details = f"{row.side} {plain(row.fill.quantity)} at {plain(row.fill.price)}"
        found.append(difference("fill", id=key, symbol=row.symbol, desk="no such order", broker=details))
    for client_id, theirs in sorted(_filled(state).items()):
        order, key = session.get(Order, client_id), f"{client_id}/{plain(theirs)}"
        ours = filled_here(session, client_id)
        if order is not None and theirs > ours and key not in adopted:
            desk = f"{order.state}, {plain(ours)} filled"
            found.append(difference("fill", id=key, symbol=order.symbol, desk=desk, broker=f"{plain(theirs)} filled"))
    return found


def halt_reason(found: Sequence[Difference]) -> str:
    """Return the differences and their remedy as one sentence."""
    listed = "; ".join(describe_difference(row) for row in found)
    return (
        f"the broker's account is not what the desk's orders explain: {listed}; look into it at the broker, then "
        "`desk reconcile --adopt` takes the account over as it is"
    )


def describe_difference(row: Difference) -> str:
    """Return one difference as text for people."""
    what = str(row["kind"]).removeprefix("adopted_").replace("_", " ")
    if row["kind"] == "blocked":
        return str(row["broker"])
    if row["kind"] == "settlement":
        return f"{row['event']} {row['symbol']}: {plain(row['quantity'])} at {plain(row['price'])}"
    on = f" {row['symbol']}" if "symbol" in row else ""
    return f"{what}{on}: {row['desk']} here, {row['broker']} at the broker"
