"""What an order is worth to whoever has to agree to it."""

from __future__ import annotations

from decimal import Decimal

from models.order_tables import Order
from tools.decimals import exact
from tools.risk import at_stake


def notional_of(order: Order, price: float) -> Decimal:
    """Quantity x what one share or contract puts at stake, in account currency; price: per share.

    A sold put counts its strike, not its premium: that is what a person or a mandate lets the desk spend. What is held
    is not looked at, so that the same order is worth the same whenever it is asked.
    """
    traded = order.contract or order.symbol
    return exact(order.quantity or 0) * at_stake(traded, order.side or "", exact(price))
