"""The notional of an order, for previews, approvals and mandates."""

from __future__ import annotations

from decimal import Decimal

from chordesk.models.tables.orders import Order
from chordesk.models.trading.legs import legs_of
from chordesk.tools.decimals import exact
from chordesk.tools.risk import unit_notional, worst_case


def notional_of(order: Order, price: float) -> Decimal:
    """Return quantity x the notional of one share or contract, in account currency; price: per share.

    A sold option counts its strike, not its premium: that is what a person or a mandate lets the desk buy or sell
    shares for. An order with legs counts its worst case. Positions do not count, so that the same order has the same
    notional at any time.
    """
    if order.legs:
        net = exact(order.limit_price or 0)
        return worst_case(legs_of(order.legs), order.side or "", exact(order.quantity or 0), net)
    traded = order.contract or order.symbol
    return exact(order.quantity or 0) * unit_notional(traded, order.side or "", exact(price))
