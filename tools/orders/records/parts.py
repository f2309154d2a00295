"""The parts of a stored order: what changes hands, one thing or its legs."""

from __future__ import annotations

from decimal import Decimal

from chordesk.models.tables.orders import Order
from chordesk.models.trading.legs import legs_of
from chordesk.tools.decimals import exact

Part = tuple[str, str, Decimal]  # symbol, side, shares or contracts


def parts_of(order: Order) -> list[Part]:
    """Return (symbol, side, quantity) of all that an order trades when it fills as a whole."""
    units = exact(order.quantity or 0)
    if not order.legs:
        return [(order.contract or order.symbol, order.side or "", units)]
    return [(leg.contract, leg.side, units * leg.ratio) for leg in legs_of(order.legs)]


def whole_of(order: Order) -> Decimal:
    """Return the shares or contracts of an order in all."""
    return sum((quantity for _, _, quantity in parts_of(order)), Decimal(0))
