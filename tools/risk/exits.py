"""Prices of orders that only reduce, where the last price is old: a limit within its collar instead of the market."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from chordesk.models.market import Quote
from chordesk.models.orders import OrderTicket, RiskContext, RiskLimits
from chordesk.tools.decimals import exact, money
from chordesk.tools.risk.exposure import TICK, only_reduces
from chordesk.tools.risk.prices import is_current

CENT = Decimal("0.01")


def within_collar(side: str, price: float, collar: float) -> float:
    """Return the limit price furthest from a price that the collar allows an order on this side, in whole cents where
    such a one lies between the price and the edge of the collar, and else to 0.0001."""
    last, share = exact(price), exact(collar)
    edge, rounding = (last * (1 + share), ROUND_FLOOR) if side == "buy" else (last * (1 - share), ROUND_CEILING)
    cents = edge.quantize(CENT, rounding)
    inside = cents >= last if side == "buy" else 0 < cents <= last
    return float(cents if inside else max(TICK, edge.quantize(TICK, rounding)))


def exit_terms(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> tuple[OrderTicket, str | None]:
    """Return the ticket as it is to be sent, with the reason where that differs from what was asked.

    A market order that only reduces becomes a limit order within the collar of the last known price, when that price
    is too old for a market order or when it is of an option. Where no price is known it stays as it is.
    """
    stale = not is_current(context.quote, context.now, limits)
    asked = ticket.order_type == "market" and context.unpriced is None and only_reduces(ticket, context)
    if not asked or not (stale or ticket.contract):
        return ticket, None
    price = within_collar(ticket.side, context.quote.price, limits.max_price_collar)
    terms = {"order_type": "limit", "limit_price": price}
    return ticket.model_copy(update=terms), exit_note(context.quote, price, stale)


def exit_note(quote: Quote, limit: float, stale: bool) -> str:
    """Return why an order that only reduces has this limit price."""
    last = f"the last price of {quote.symbol} is {money(quote.price)}"
    when = f" of {quote.at:%Y-%m-%d %H:%M %Z}" if stale else ""
    return f"{last}{when}: sent with a limit of {money(limit)}, within its collar, instead of at the market"
