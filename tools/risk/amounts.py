"""Rules on amounts, prices and losses, and the prices of orders that only reduce."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from chordesk.models.day_limits import DayBand
from chordesk.models.exchanges import at_listing
from chordesk.models.market import Quote, parse_contract, plain_name
from chordesk.models.money import pair_name
from chordesk.models.orders import DenialCode, Denied, OrderTicket, RiskContext
from chordesk.models.settings import Settings
from chordesk.tools.decimals import exact, money, plain, stepped
from chordesk.tools.market.price_steps import Terms, coarse_price, finest_step
from chordesk.tools.risk.codes import deny, format_span
from chordesk.tools.risk.exposure import (
    ZERO,
    added_risk,
    cash_needed,
    converted,
    covers,
    exposures,
    free_cash,
    notional_of,
    only_reduces,
    opening_only,
    opening_quantity,
    price_of,
    without_rate,
)

_SECURED = "sell a put against free cash, or a call against 100 free shares"


@opening_only
def notional_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    notional, most = notional_of(ticket, context), exact(limits.max_order_notional)
    if notional <= most:
        return None
    price = priced_in(price_of(ticket, context), context)
    reason = f"{plain(ticket.quantity)} {ticket.traded} at {price} is more than one order may be"
    return deny(
        DenialCode.NOTIONAL_PER_ORDER, reason, f"notional {_own(notional, context)}", f"at most {_own(most, context)}"
    )


def _unpriced(context: RiskContext) -> str:
    names = ", ".join(held.symbol for held in context.account.positions if held.market_price is None)
    unrated = next((held for held in context.account.positions if without_rate(held)), None)
    if not names and unrated is not None:
        return f"no rate of {unrated.currency} for {unrated.symbol}"
    return f"no price for {names or 'a position'}"


def no_rate(traded: str, pair: str, why: str) -> Denied:
    reason = f"{traded} is priced in another currency than the account's: {why}"
    return deny(DenialCode.FX_UNKNOWN, reason, f"no rate of {pair}", "a rate that is no older than DESK_MAX_FX_AGE")


@opening_only
def rate_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny an entry while what is held in another currency cannot be counted: equity is not known then."""
    unrated = next((held for held in context.account.positions if without_rate(held)), None)
    if unrated is None:
        return None
    pair = pair_name(str(unrated.currency), context.account.currency)
    return no_rate(unrated.symbol, pair, unrated.missing or "its rate was not read")


def priced_in(price: Decimal | float, context: RiskContext) -> str:
    """Return a price of what the ticket trades as text, with its currency."""
    return money(price, context.account.currency if context.fx is None else context.fx.currency)


def _own(amount: Decimal, context: RiskContext) -> str:
    """Return an amount in the account's currency as text."""
    return money(amount, context.account.currency, always=context.fx is not None)


@opening_only
def share_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    limit = f"at most {exact(limits.max_symbol_share):.2%} of equity"
    found = exposures(ticket, context)
    if context.account.equity is None or found is None:
        reason = f"the account's equity is not known: {_unpriced(context)}"
        return deny(DenialCode.SHARE_PER_SYMBOL, reason, "equity unknown", limit)
    equity, exposure = exact(context.account.equity), found[ticket.symbol]
    if exposure <= exact(limits.max_symbol_share) * equity:
        return None
    reason = f"{ticket.symbol} would be {_own(exposure, context)} of an equity of {_own(equity, context)}"
    return deny(DenialCode.SHARE_PER_SYMBOL, reason, _share(exposure, equity), limit)


def _share(exposure: Decimal, equity: Decimal) -> str:
    return f"{exposure / equity:.4%} of equity" if equity > 0 else "no equity"


@opening_only
def symbol_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    most, found = exact(limits.max_symbol_notional), exposures(ticket, context)
    limit = f"at most {_own(most, context)}"
    if found is None:
        return deny(DenialCode.NOTIONAL_PER_SYMBOL, _unpriced(context), "exposure unknown", limit)
    if found[ticket.symbol] <= most:
        return None
    reason = f"{ticket.symbol} would be more than may be in one symbol"
    return deny(DenialCode.NOTIONAL_PER_SYMBOL, reason, f"exposure {_own(found[ticket.symbol], context)}", limit)


@opening_only
def gross_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    most, found = exact(limits.max_gross_notional), exposures(ticket, context)
    limit = f"at most {_own(most, context)}"
    if found is None:
        return deny(DenialCode.GROSS_NOTIONAL, _unpriced(context), "exposure unknown", limit)
    gross = sum(found.values(), ZERO)
    if gross <= most:
        return None
    reason = f"with this order and what is open the account would hold {_own(gross, context)}"
    return deny(DenialCode.GROSS_NOTIONAL, reason, f"gross {_own(gross, context)}", limit)


@opening_only
def sector_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """An unknown sector counts as the worst case: it may be that of any other symbol."""
    share = exact(limits.max_sector_share)
    if share >= 1:
        return None
    limit, found = f"at most {share:.2%} of equity", exposures(ticket, context)
    if context.account.equity is None or found is None:
        return deny(DenialCode.SHARE_PER_SECTOR, _unpriced(context), "equity unknown", limit)
    sector, exposure = largest_sector(ticket.symbol, found, context.sectors)
    equity = exact(context.account.equity)
    if exposure <= share * equity:
        return None
    unknown = sum((amount for other, amount in found.items() if context.sectors.get(other) is None), ZERO)
    counted = f", {_own(unknown, context)} in symbols of an unknown sector counted in," if unknown else ""
    own_data = unknown and plain_name(context.markets[0]) == "files"
    remedy = "; sectors in universe.csv tell them apart" if own_data else ""
    reason = f"{sector} would be {_own(exposure, context)}{counted} of an equity of {_own(equity, context)}{remedy}"
    return deny(DenialCode.SHARE_PER_SECTOR, reason, _share(exposure, equity), limit)


def largest_sector(symbol: str, found: Mapping[str, Decimal], sectors: Mapping[str, str | None]) -> tuple[str, Decimal]:
    """Return the sector that an order on `symbol` may fill, with the exposure of every symbol that is or may be in
    it."""
    own = sectors.get(symbol)
    known = {name for name in map(sectors.get, found) if name is not None}

    def within(names: Iterable[str | None]) -> Decimal:
        return sum((amount for other, amount in found.items() if sectors.get(other) in names), ZERO)

    if own is not None:
        return f"the sector {own}", within((own, None))
    worst = max((within((name, None)) for name in known), default=within((None,)))
    return f"the sector of {symbol}, which is not known,", worst


def buying_power_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    return None if ticket.is_option else _cash_denial(ticket, context, limits, DenialCode.BUYING_POWER)


@opening_only
def cash_secured_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny every opening option order but a put sold with its cash, and a call sold with its shares, put aside."""
    if not ticket.is_option:
        return None
    if ticket.side == "buy" and not ticket.legs:
        reason = f"to buy {ticket.contract} opens what is not secured by cash or shares"
        return deny(DenialCode.CASH_SECURED, reason, "buy to open", _SECURED)
    before, after = covers(ticket, context)
    if after.naked > before.naked:
        sold = f"{plain(ticket.quantity)} {ticket.contract}" if ticket.contract else f"calls of {len(ticket.legs)} legs"
        reason = f"to sell {sold} needs 100 shares of {ticket.symbol} for each call"
        measured = f"{plain(after.naked - before.naked)} without shares that are free"
        return deny(DenialCode.CASH_SECURED, reason, measured, _SECURED)
    return _cash_denial(ticket, context, limits, DenialCode.CASH_SECURED)


def _option_cash(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Decimal:
    """Return the cash that an option order may cost at worst, commission included."""
    commission = exact(ticket.whole) * exact(limits.commission_per_share)
    if ticket.legs:
        return added_risk(ticket, context) + commission
    before, after = covers(ticket, context)
    return converted(max(after.cash - before.cash, ZERO), context.fx) + commission


def _cash_denial(ticket: OrderTicket, context: RiskContext, limits: Settings, code: DenialCode) -> Denied | None:
    opening = opening_quantity(ticket, context)
    if not ticket.is_option and not opening:
        return None
    if ticket.is_option:
        need = _option_cash(ticket, context, limits)
    else:
        need = cash_needed(ticket.traded, ticket.side, opening, price_of(ticket, context), limits, context.fx)
        need += exact(context.duties)
    free = free_cash(context.account)
    if free is None:
        reason = "free cash is not known: a short position has no price or is a call without cover"
        return deny(code, reason, "free cash unknown", f"{_own(need, context)} needed")
    left = free - sum((exact(reservation.cash) for reservation in context.reservations), ZERO)
    if need <= left:
        return None
    what = (
        f"{plain(ticket.quantity)} of {len(ticket.legs)} legs" if ticket.legs else f"{plain(opening)} {ticket.traded}"
    )
    reason = f"{what} may need more than the cash that is free"
    return deny(code, reason, f"needs {_own(need, context)}", f"{_own(left, context)} free")


def unpriced(traded: str, why: str) -> Denied:
    return deny(DenialCode.UNPRICED, f"{traded} has no price: {why}", "no price", "a price of now or before")


@opening_only
def priced_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    return None if context.unpriced is None else unpriced(ticket.traded, context.unpriced)


def is_current(quote: Quote, now: dt.datetime, limits: Settings) -> bool:
    """Return whether a quote is young enough for an order that opens. now: market time."""
    return dt.timedelta() <= now - quote.at <= dt.timedelta(minutes=limits.max_quote_age_minutes)


@opening_only
def quote_age_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    if is_current(context.quote, context.now, limits):
        return None
    age, most = context.now - context.quote.at, dt.timedelta(minutes=limits.max_quote_age_minutes)
    wrong = f"and an order needs one of the last {format_span(most)}" if age > most else "later than now"
    reason = f"the last price of {ticket.traded} is of {at_listing(context.quote.at, ticket.symbol)}, {wrong}"
    return deny(DenialCode.QUOTE_STALE, reason, f"{format_span(age)} old", f"at most {format_span(most)} old")


def collar_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny a limit far from the last quote or from its stop. Without a price the order waits for a person instead."""
    if ticket.limit_price is None or context.unpriced is not None:
        return None
    if ticket.stop_price is not None:
        return _stop_collar(ticket, ticket.limit_price, ticket.stop_price, context, limits)
    quote, collar = exact(context.quote.price), exact(limits.max_price_collar)
    last = quote if context.net is None else exact(context.net)
    distance = abs(exact(ticket.limit_price) - last)
    if distance <= collar * quote:
        return None
    quoted = parse_contract(ticket.traded) is not None and None not in (context.quote.bid, context.quote.ask)
    price = "the middle of the quotes of" if quoted else "the last price of"
    of = f"the net price of its {len(ticket.legs)} legs" if ticket.legs else f"{price} {ticket.traded}"
    prices = priced_in(ticket.limit_price, context), priced_in(last, context)
    reason = f"the limit of {prices[0]} is far from {of}, {prices[1]}"
    return deny(DenialCode.COLLAR, reason, f"{distance / quote:.4%} away", f"at most {collar:.2%} away")


def _stop_collar(
    ticket: OrderTicket, limit_price: float, stop_price: float, context: RiskContext, limits: Settings
) -> Denied | None:
    stop, collar = exact(stop_price), exact(limits.max_price_collar)
    distance = abs(exact(limit_price) - stop)
    if distance <= collar * stop:
        return None
    prices = priced_in(limit_price, context), priced_in(stop_price, context)
    reason = f"the limit of {prices[0]} is far from the stop of {ticket.traded}, {prices[1]}"
    return deny(DenialCode.COLLAR, reason, f"{distance / stop:.4%} away", f"at most {collar:.2%} away")


@opening_only
def daily_loss_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    since, most = context.day_opening_at, limits.max_daily_loss
    return _loss_denial(DenialCode.DAILY_LOSS, since, context.day_opening, context, most)


@opening_only
def drawdown_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    return _loss_denial(DenialCode.DRAWDOWN, "its highest", context.high_water, context, limits.max_drawdown)


def _loss_denial(code: DenialCode, since: str, mark: float | None, context: RiskContext, most: float) -> Denied | None:
    limit = f"at most {exact(most):.2%}"
    if context.account.equity is None or mark is None:
        return deny(code, "the account's equity, now or before, is not known", "equity unknown", limit)
    equity, before = exact(context.account.equity), exact(mark)
    loss = before - equity
    if loss <= exact(most) * before:
        return None
    reason = f"equity fell from {_own(before, context)} at {since} to {_own(equity, context)}"
    return deny(code, reason, f"{loss / before:.4%} lost" if before > 0 else f"{_own(loss, context)} lost", limit)


def within_collar(symbol: str, side: str, price: float, collar: float) -> float:
    """Return the limit price furthest from a price that the collar allows an order on this side: a round one (in New
    York whole cents) where such a one lies between the price and the edge of the collar, and else in the finest steps.
    """
    last, share = exact(price), exact(collar)
    edge, rounding = (last * (1 + share), ROUND_FLOOR) if side == "buy" else (last * (1 - share), ROUND_CEILING)
    round_price, finest = coarse_price(symbol, edge, rounding), finest_step(symbol)
    inside = round_price >= last if side == "buy" else 0 < round_price <= last
    return float(round_price if inside else max(finest, stepped(edge, finest, rounding)))


def exit_terms(ticket: OrderTicket, context: RiskContext, limits: Settings) -> tuple[OrderTicket, str | None]:
    """Return the ticket as it is to be sent, with the reason where that differs from what was asked. A market order
    that only reduces becomes a limit order within the collar of the last known price, when that price is too old for a
    market order or when it is of an option. Where no price is known it stays as it is."""
    stale = not is_current(context.quote, context.now, limits)
    asked = ticket.order_type == "market" and context.unpriced is None and only_reduces(ticket, context)
    if not asked or not (stale or ticket.contract):
        return ticket, None
    price = within_collar(ticket.symbol, ticket.side, context.quote.price, limits.max_price_collar)
    terms = {"order_type": "limit", "limit_price": price}
    note = exit_note(context.quote, price, stale, context.fx.currency if context.fx else context.account.currency)
    return ticket.model_copy(update=terms), note


def on_steps(
    ticket: OrderTicket, band: DayBand | None, terms: Terms, note: str | None, currency: str | None
) -> tuple[OrderTicket, str | None]:
    """Return the ticket with its prices as the exchange takes them, and the note with what was moved. A limit never
    gets worse than it was asked for, and a stop never further from the market. note: of a limit that the desk itself
    has set on an exit, which may not be outside the day's range; one that was asked for there is denied. currency: of
    the prices."""
    changes: dict[str, float] = {}
    if ticket.limit_price is not None:
        limit = exact(ticket.limit_price)
        if note is not None and band is not None:
            limit = max(limit, band.low) if ticket.side == "sell" else min(limit, band.high)
        changes["limit_price"] = float(terms.price(limit, ROUND_FLOOR if ticket.side == "buy" else ROUND_CEILING))
    if ticket.stop_price is not None:
        way = ROUND_CEILING if ticket.side == "sell" else ROUND_FLOOR
        changes["stop_price"] = float(terms.price(exact(ticket.stop_price), way))
    moved = {name: price for name, price in changes.items() if price != getattr(ticket, name)}
    said = [
        f"{name.replace('_', ' ')} {money(price, currency)}, a price of the exchange" for name, price in moved.items()
    ]
    return ticket.model_copy(update=moved), "; ".join(filter(None, [note, *said])) or None


def exit_note(quote: Quote, limit: float, stale: bool, currency: str | None) -> str:
    """Return why an order that only reduces has this limit price. currency: of the prices."""
    last = f"the last price of {quote.symbol} is {money(quote.price, currency)}"
    when = f" of {at_listing(quote.at, quote.symbol)}" if stale else ""
    return f"{last}{when}: sent with a limit of {money(limit, currency)}, within its collar, instead of at the market"
