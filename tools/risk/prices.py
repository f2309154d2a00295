"""Rules on prices: there is one, it is fresh, and a limit price is near it."""

from __future__ import annotations

import datetime as dt

from models.orders import DenialCode, Denied, OrderTicket, RiskContext, RiskLimits
from tools.decimals import exact, money
from tools.risk.denials import deny, format_span


def unpriced(traded: str, why: str) -> Denied:
    return deny(DenialCode.UNPRICED, f"{traded} has no price: {why}", "no price", "a price of now or before")


def quote_age_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    age, most = context.now - context.quote.at, dt.timedelta(minutes=limits.max_quote_age_minutes)
    if dt.timedelta() <= age <= most:
        return None
    wrong = f"and an order needs one of the last {format_span(most)}" if age > most else "later than now"
    reason = f"the last price of {ticket.traded} is of {context.quote.at:%Y-%m-%d %H:%M %Z}, {wrong}"
    return deny(DenialCode.QUOTE_STALE, reason, f"{format_span(age)} old", f"at most {format_span(most)} old")


def collar_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """Deny a limit price far from the last quote, on either side, as a mistake."""
    if ticket.limit_price is None:
        return None
    quote, collar = exact(context.quote.price), exact(limits.max_price_collar)
    distance = abs(exact(ticket.limit_price) - quote)
    if distance <= collar * quote:
        return None
    reason = f"the limit of {money(ticket.limit_price)} is far from the last price of {ticket.traded}, {money(quote)}"
    return deny(DenialCode.COLLAR, reason, f"{distance / quote:.4%} away", f"at most {collar:.2%} away")
