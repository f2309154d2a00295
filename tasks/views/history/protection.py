"""Orders that protect a position, as the views of accounts and symbols show them."""

from __future__ import annotations

from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.tables.orders import Order
from chordesk.tools.orders.stops import left_of


class ProtectiveOrder(Frozen):
    """An order that protects a position. left: shares that it may still sell, or buy back."""

    order: str
    state: str
    side: str | None
    order_type: str | None
    stop_price: float | None
    limit_price: float | None
    trail_percent: float | None
    time_in_force: str
    left: float


def protective_order(session: Session, order: Order) -> ProtectiveOrder:
    """Return an order with the shares that it may still move."""
    return ProtectiveOrder.of(order, order=order.id, left=float(left_of(session, order)))
