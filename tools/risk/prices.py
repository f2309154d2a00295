"""Rules on prices: there is one, it is fresh, and a limit price is near it."""

from __future__ import annotations

import datetime as dt

from chordesk.models.contracts import parse_contract
from chordesk.models.market import Quote
from chordesk.models.orders import DenialCode, Denied, OrderTicket, RiskContext, RiskLimits
from chordesk.tools.decimals import exact, money
from chordesk.tools.risk.denials import deny, format_span
from chordesk.tools.risk.exposure import opening_only


def unpriced(traded: str, why: str) -> Denied:
    return deny(DenialCode.UNPRICED, f"{traded} has no price: {why}", "no price", "a price of now or before")


@opening_only
def priced_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    return None if context.unpriced is None else unpriced(ticket.traded, context.unpriced)


def is_current(quote: Quote, now: dt.datetime, limits: RiskLimits) -> bool:
    """Return whether a quote is young enough for an order that opens. now: market time."""
    return dt.timedelta() <= now - quote.at <= dt.timedelta(minutes=limits.max_quote_age_minutes)


@opening_only
def quote_age_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if is_current(context.quote, context.now, limits):
        return None
    age, most = context.now - context.quote.at, dt.timedelta(minutes=limits.max_quote_age_minutes)
    wrong = f"and an order needs one of the last {format_span(most)}" if age > most else "later than now"
    reason = f"the last price of {ticket.traded} is of {context.quote.at:%Y-%m-%d %H:%M %Z}, {wrong}"
    return deny(DenialCode.QUOTE_STALE, reason, f"{format_span(age)} old", f"at most {format_span(most)} old")


def collar_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """Deny a limit price far from the last quote, or from the stop that it follows, on either side, as a mistake.
    Without a price there is no collar, and the order waits for a person instead."""
    if ticket.limit_price is None or context.unpriced is not None:
        return None
    if ticket.stop_price is not None:
        return _stop_collar(ticket, ticket.limit_price, ticket.stop_price, limits)
    quote, collar = exact(context.quote.price), exact(limits.max_price_collar)
    last = quote if context.net is None else exact(context.net)
    distance = abs(exact(ticket.limit_price) - last)
    if distance <= collar * quote:
        return None
    quoted = parse_contract(ticket.traded) is not None and None not in (context.quote.bid, context.quote.ask)
    price = "the middle of the quotes of" if quoted else "the last price of"
    of = f"the net price of its {len(ticket.legs)} legs" if ticket.legs else f"{price} {ticket.traded}"
    reason = f"the limit of {money(ticket.limit_price)} is far from {of}, {money(last)}"
    return deny(DenialCode.COLLAR, reason, f"{distance / quote:.4%} away", f"at most {collar:.2%} away")


def _stop_collar(ticket: OrderTicket, limit_price: float, stop_price: float, limits: RiskLimits) -> Denied | None:
    stop, collar = exact(stop_price), exact(limits.max_price_collar)
    distance = abs(exact(limit_price) - stop)
    if distance <= collar * stop:
        return None
    reason = f"the limit of {money(limit_price)} is far from the stop of {ticket.traded}, {money(stop_price)}"
    return deny(DenialCode.COLLAR, reason, f"{distance / stop:.4%} away", f"at most {collar:.2%} away")
