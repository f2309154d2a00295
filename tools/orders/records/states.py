"""Transitions of an order's state; nothing else changes it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col

from chordesk.models.errors import OrderError
from chordesk.models.orders import Denied
from chordesk.models.states import ORDER_NEXT, OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.tools.orders.records import events


def load_order(session: Session, order_id: str) -> Order:
    """Return the order's row. Raises OrderError when there is none."""
    order = session.get(Order, order_id)
    if order is None:
        raise OrderError(f"there is no order {order_id!r}", remedy="process its decision first")
    return order


def lock_order(session: Session, order_id: str) -> Order:
    """Return the order's row, locked until the end of the transaction. Raises OrderError when there is none."""
    session.get(Order, order_id, with_for_update=True, populate_existing=True)
    return load_order(session, order_id)


def advance(session: Session, order: Order, to: OrderState, **changes: Any) -> None:
    """Move an order to its next state, with other columns if named, and refresh `order`.

    Raises OrderError when ORDER_NEXT does not lead there, or when the row is no longer in the state that `order` shows:
    then another process moved it, and nothing is written.
    """
    was = OrderState(order.state)
    if to not in ORDER_NEXT[was]:
        following = ", ".join(sorted(ORDER_NEXT[was])) or "nothing: it is final"
        raise OrderError(f"order {order.id} is {was} and cannot become {to}", remedy=f"what may follow: {following}")
    moved = session.exec(
        update(Order)
        .where(col(Order.id) == order.id, col(Order.state) == was.value)
        .values(state=to.value, updated_at=utcnow(), **changes)
        .execution_options(synchronize_session=False)
    )
    if moved.rowcount != 1:
        raise OrderError(f"order {order.id} is no longer {was}", remedy="another worker has it; read it again")
    session.refresh(order)
    events.state(session, order, was.value)


def deny_order(session: Session, order: Order, denied: Denied) -> None:
    """Close an order as denied, with the reason."""
    advance(
        session,
        order,
        OrderState.DENIED,
        denial_code=denied.code.value,
        denial_reason=denied.reason,
        measured=denied.measured,
        limit_text=denied.limit,
    )
