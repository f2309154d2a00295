"""Rules on the instrument: listing, option contract, direction and order type."""

from __future__ import annotations

import datetime as dt

from chordesk.models.contracts import parse_contract
from chordesk.models.orders import DenialCode, Denied, OrderTicket, RiskContext, RiskLimits
from chordesk.models.research import Instrument
from chordesk.tools.decimals import exact, plain
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.risk.cover import ZERO
from chordesk.tools.risk.denials import deny
from chordesk.tools.risk.exposure import assumed_position, covers, opening_only, opening_parts, opening_quantity


def bad_contract(symbol: str, contract: str, now: dt.datetime, opens: bool) -> Denied | None:
    """Return a denial for an option that names no contract, one of another symbol, or one that ended. One that ends
    today can be given back and not taken on."""
    found = parse_contract(contract)
    limit = f"an OCC symbol on {symbol} that expires {'after today' if opens else 'today or later'}"
    if found is None:
        reason = f"{contract!r} names no option contract: root, YYMMDD, C or P, strike in thousandths"
        return deny(DenialCode.OPTION_CONTRACT, reason, f"contract {contract}", limit)
    if found.underlying != symbol:
        reason = f"{contract} is a contract on {found.underlying} and not on {symbol}"
        return deny(DenialCode.OPTION_CONTRACT, reason, f"underlying {found.underlying}", limit)
    today = exchange_day(now)
    if found.expiry < today or (opens and found.expiry == today):
        ended = "today" if found.expiry == today else f"on {found.expiry}"
        return deny(DenialCode.OPTION_CONTRACT, f"{contract} expires {ended}", f"expiry {found.expiry}", limit)
    return None


def not_listed(symbol: str, known: bool) -> Denied:
    """Return the denial of an unlisted symbol. known: the market does not carry it; False when the market did not
    answer."""
    answer = "does not carry" if known else "does not answer whether it carries"
    measured = "not listed" if known else "listing unknown"
    return deny(DenialCode.NOT_LISTED, f"the market {answer} {symbol}", measured, "a symbol of this market")


@opening_only
def listed_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """Deny an unlisted symbol, and any while the market does not answer."""
    return None if context.listed else not_listed(ticket.symbol, context.listed is False)


def contract_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if ticket.is_option:
        opened = zip(ticket.parts, opening_parts(ticket, context), strict=True)
        found = (bad_contract(ticket.symbol, part[0], context.now, opens > 0) for part, opens in opened)
        return next((denied for denied in found if denied is not None), None)
    named_option = context.instrument is Instrument.OPTION and limits.options_allowed
    if not named_option or not opening_quantity(ticket, context):
        return None
    reason = f"{ticket.symbol} was put forward as an option, and the action names no contract"
    return deny(DenialCode.OPTION_CONTRACT, reason, "no contract", f"an OCC symbol on {ticket.symbol}")


def long_only_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """Deny short sales of shares, and of shares that cover written calls; a short option's cash is checked by
    `cash_secured_rule`."""
    if ticket.is_option or ticket.side != "sell":
        return None
    before, after = covers(ticket, context)
    uncovers = after.needs_more_than(before)
    if not uncovers and (limits.allow_short or not opening_quantity(ticket, context)):
        return None
    free = max(assumed_position(ticket, context) - before.shares, ZERO)
    wrong = f"would take their cover from written calls, which bind {plain(before.shares)}"
    reason = f"selling {plain(ticket.quantity)} {ticket.symbol} with {plain(free)} free to sell"
    reason = f"{reason} {wrong if uncovers else 'would go short'}"
    return deny(DenialCode.LONG_ONLY, reason, f"sell {plain(ticket.quantity)} shares", f"at most {plain(free)} shares")


def direction_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """Deny an open or add that does not take exposure on, and a reduce or close that does not give it back."""
    if ticket.legs:
        return _legs_denial(ticket, context)
    opening, quantity = opening_quantity(ticket, context), exact(ticket.quantity)
    if ticket.action in ("open", "add"):
        wrong, limit = opening != quantity, "takes on exposure alone"
    else:
        wrong, limit = opening > 0, "gives back exposure alone"
    if not wrong:
        return None
    unit = "contracts" if ticket.contract else "shares"
    held = plain(assumed_position(ticket, context))
    reason = f"{ticket.action} with a {ticket.side} of {plain(quantity)} contradicts the {held} {unit} held"
    return deny(DenialCode.MALFORMED, reason, f"{plain(opening)} of {plain(quantity)} {unit} open exposure", limit)


def _legs_denial(ticket: OrderTicket, context: RiskContext) -> Denied | None:
    """Deny legs of which one crosses through zero, an open or add of which none opens, and a reduce or close of which
    one does."""
    opened = list(zip(ticket.parts, opening_parts(ticket, context), strict=True))
    crossing = [part for part, opens in opened if 0 < opens < exact(part[2])]
    if crossing:
        traded, side, quantity = crossing[0]
        reason = f"the leg to {side} {plain(quantity)} {traded} closes a part and opens the rest"
        return deny(DenialCode.MALFORMED, reason, "a leg that crosses through zero", "opens or closes as a whole")
    opens = sum(1 for _, quantity in opened if quantity)
    if bool(opens) == (ticket.action in ("open", "add")):
        return None
    limit = "at least 1 leg opens" if ticket.action in ("open", "add") else "every leg gives back what is held"
    reason = f"{ticket.action} with legs of which {opens} open contradicts what is held"
    return deny(DenialCode.MALFORMED, reason, f"{opens} of {len(opened)} legs open exposure", limit)


@opening_only
def instrument_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """Deny shares or options that the settings exclude."""
    found = context.instrument
    option = ticket.is_option or found is Instrument.OPTION
    if found is None:
        reason = f"the instrument of {ticket.symbol} is not known"
    elif option and not limits.options_allowed:
        reason = f"an option on {ticket.symbol}, and the desk trades stocks only"
    elif not option and not limits.shares_allowed:
        reason = "options_mode=options-only: shares are not traded"
    else:
        return None
    both = (limits.shares_allowed, limits.options_allowed)
    allowed = {(True, True): "equity, etf or option", (False, True): "option"}.get(both, "equity or etf")
    measured = "instrument option" if option else f"instrument {found or 'unknown'}"
    return deny(DenialCode.STOCKS_ONLY, reason, measured, allowed)


@opening_only
def order_type_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """Deny market orders on options: their quotes are wide, and one could fill anywhere."""
    if not ticket.is_option or ticket.order_type == "limit":
        return None
    reason = f"{ticket.contract or 'a leg'} is an option, and options are ordered with a limit price"
    return deny(DenialCode.ORDER_TYPE, reason, f"order type {ticket.order_type}", "order type limit")
