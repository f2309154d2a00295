"""Questions about protection on a desk: the protective orders that work, and whether they cover what is held."""

from __future__ import annotations

from chordesk.models.states import ORDER_WORKING
from chordesk.models.tables.orders import Order
from chordesk.tools.orders.flow import Counts, maintain_orders
from tests.tools.orders.desk import Desk


def stops(desk: Desk) -> list[Order]:
    """Protective orders that the broker works on."""
    return [order for order in desk.orders() if order.protects is not None and order.state in ORDER_WORKING]


def sizes(desk: Desk) -> list[tuple[str, float | None, float | None]]:
    return [(order.symbol, order.quantity, order.stop_price) for order in stops(desk)]


def left(desk: Desk, order: Order) -> float:
    filled = sum(fill.quantity for fill in desk.fills() if fill.order_id == order.id)
    return (order.quantity or 0) - filled


def selling(desk: Desk) -> dict[str, float]:
    """Shares that working orders may still sell, by symbol."""
    found: dict[str, float] = {}
    for order in desk.orders():
        if order.side == "sell" and order.state in ORDER_WORKING:
            found[order.symbol] = found.get(order.symbol, 0) + left(desk, order)
    return found


def covered(desk: Desk) -> None:
    """Every share held is in one working order that sells it, and none in two."""
    assert selling(desk) == desk.positions()
    symbols = [order.symbol for order in stops(desk)]
    assert len(symbols) == len(set(symbols))


def a_pass(desk: Desk) -> Counts:
    return maintain_orders(desk.context())
