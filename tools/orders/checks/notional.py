"""The notional of an order, for previews, approvals and mandates."""

from __future__ import annotations

from decimal import Decimal

from models.tables.orders import Order
from tools.decimals import exact
from tools.risk import unit_exposure


def notional_of(order: Order, price: float) -> Decimal:
    """Return quantity x the exposure of one share or contract, in account currency; price: per share.

    A sold put counts its strike, not its premium: that is what a person or a mandate lets the desk spend. Positions do
    not count, so that the same order has the same notional at any time.
    """
    traded = order.contract or order.symbol
    return exact(order.quantity or 0) * unit_exposure(traded, order.side or "", exact(price))
