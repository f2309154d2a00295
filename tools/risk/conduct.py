"""Rules on the account and its research, and on the instrument."""

from __future__ import annotations

import datetime as dt

from chordesk.models.answers import Instrument, Rating
from chordesk.models.exchanges import EXCHANGES, HOME, exchange_code, of_place
from chordesk.models.market import parse_contract, plain_name
from chordesk.models.orders import DenialCode, Denied, OrderTicket, RiskContext
from chordesk.models.settings import REPLAYING, Settings
from chordesk.models.settings.running_desk import PAPER, is_paper
from chordesk.models.states import TradingState
from chordesk.models.text import NEW_YORK
from chordesk.tools.decimals import exact, plain
from chordesk.tools.market.clock import at_exchange, exchange_day, usual_close
from chordesk.tools.risk.amounts import priced_in
from chordesk.tools.risk.codes import deny, format_span
from chordesk.tools.risk.exposure import (
    ZERO,
    assumed_position,
    covers,
    only_reduces,
    opening_only,
    opening_parts,
    opening_quantity,
)

# Orders by the rulebook model or on a market of past prices are simulations, so they trade on paper alone.
PAPER_ONLY_PROVIDERS = frozenset({"rulebook"})
PAPER_ONLY_MARKETS: frozenset[str] = frozenset(REPLAYING)
# New York time from which orders for the next day's auctions are taken.
AUCTIONS_FROM = dt.time(19)
CLOSING_CUT = dt.timedelta(minutes=10)  # before the close, until which orders for it are taken
IDLE_SESSIONS = 5  # so many without any volume, and nothing is opened; a source may lack the volume of a single one
_BARRED = frozenset({Rating.INSUFFICIENT, Rating.PASS})  # nothing is opened or added on these


def halted(state: TradingState, why: str, account: str) -> Denied:
    reason = f"trading of {account} is halted: {why or 'no reason given'}; `desk resume` lets it go on"
    return deny(DenialCode.HALTED, reason, f"trading {state}", f"trading {TradingState.ACTIVE}")


def trading_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    if context.trading is TradingState.ACTIVE:
        return None
    if context.trading is not TradingState.REDUCING:
        return halted(context.trading, context.trading_why, ticket.account)
    if only_reduces(ticket, context):
        return None
    reason = f"{ticket.account} only gives exposure back: {context.trading_why or 'no reason given'}"
    limit = f"trading {TradingState.ACTIVE} to take any on"
    return deny(DenialCode.REDUCING, reason, f"trading {context.trading}", limit)


def provider_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    if not is_paper(context.broker):
        barred = sorted(
            (PAPER_ONLY_PROVIDERS & set(context.providers))
            | (PAPER_ONLY_MARKETS & set(map(plain_name, context.markets)))
        )
        if barred:
            reason = f"{' and '.join(barred)} may trade with the {PAPER} broker only"
            return deny(DenialCode.PROVIDER_NOT_ALLOWED, reason, f"broker {context.broker}", f"broker {PAPER}")
    if ticket.account != context.broker:
        reason = f"the account {ticket.account} is not one of the broker {context.broker}"
        return deny(DenialCode.PROVIDER_NOT_ALLOWED, reason, f"account {ticket.account}", f"account {context.broker}")
    return None


@opening_only
def data_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    here, *others = context.markets
    changed = next((one for one in others if one != here and plain_name(one) == plain_name(here)), None)
    if changed is None:
        return None
    reason = f"the run looked at the data {changed}, and those here are {here}: a file of DESK_DATA has changed"
    return deny(DenialCode.SETTINGS_DIFFER, reason, changed, here)


@opening_only
def volume_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny an entry into a name in which nobody trades: its last price is not one at which anything changed hands."""
    if context.idle < IDLE_SESSIONS:
        return None
    reason = f"{ticket.symbol} had no volume in its last {IDLE_SESSIONS} sessions: nobody traded at its price"
    measured = f"{context.idle} sessions without volume"
    return deny(DenialCode.NO_VOLUME, reason, measured, f"volume in one of the last {IDLE_SESSIONS}")


def no_verdict(symbol: str, instead: Denied | None = None) -> Denied:
    """instead: why an exit gives nothing back, so that it would open."""
    reason = f"the run has no verdict on {symbol}; research it first"
    reason = reason if instead is None else f"{instead.reason}, and no verdict of the run lets it open anything"
    return deny(DenialCode.NO_VERDICT, reason, "no verdict", "a verdict of the same run")


@opening_only
def verdict_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    if context.rating is None:
        exits = ticket.action in ("reduce", "close")
        return no_verdict(ticket.symbol, direction_rule(ticket, context, limits) if exits else None)
    if context.rating not in _BARRED:
        return None
    reason = f"a verdict of {context.rating} on {ticket.symbol} does not allow to {ticket.action}"
    allowed = ", ".join(rating for rating in Rating if rating not in _BARRED)
    return deny(DenialCode.NOT_TRADABLE, reason, f"verdict {context.rating}", f"one of {allowed}")


@opening_only
def verdict_age_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    most = dt.timedelta(hours=limits.max_verdict_age_hours)
    limit = f"at most {format_span(most)} old"
    if context.verdict_at is None:
        return deny(DenialCode.VERDICT_STALE, "when the verdict was reached is not known", "age unknown", limit)
    age = context.now - context.verdict_at
    if dt.timedelta() <= age <= most:
        return None
    wrong = "is of a later day than now" if age < dt.timedelta() else "is too old"
    reason = f"the verdict on {ticket.symbol} {wrong}; research it anew"
    return deny(DenialCode.VERDICT_STALE, reason, f"{format_span(age)} old in market time", limit)


@opening_only
def unresolved_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    if context.unresolved is None:
        return None
    reason = f"what became of order {context.unresolved} on {ticket.symbol} is not known; `desk reconcile` asks again"
    return deny(DenialCode.UNRESOLVED, reason, "an order without an answer", "no such order on the symbol")


@opening_only
def cooldown_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    if context.last_order_at is None:
        return None
    cooldown = dt.timedelta(hours=limits.cooldown_hours)
    elapsed = context.now - context.last_order_at
    if elapsed >= cooldown:
        return None
    traded = f", {context.last_order}" if context.last_order else ""
    reason = (
        f"{ticket.symbol} rests after its last order{traded}; {format_span(cooldown - elapsed)} of market time remain"
    )
    measured, limit = f"{format_span(elapsed)} since the last order", f"at least {format_span(cooldown)}"
    return deny(DenialCode.COOLDOWN, reason, measured, limit)


def duplicate_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    if context.open_order is None:
        return None
    reason = f"order {context.open_order} to {ticket.side} {ticket.traded} is still open"
    return deny(DenialCode.DUPLICATE, reason, "1 open order of this kind", "none")


@opening_only
def rejections_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    most = limits.max_consecutive_rejections
    if context.rejections < most:
        return None
    reason = f"the broker refused the last {context.rejections} orders of today; `desk resume` starts the count anew"
    return deny(DenialCode.CONSECUTIVE_REJECTIONS, reason, f"{context.rejections} in a row", f"fewer than {most}")


@opening_only
def rate_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    reason = f"{context.recent_orders} orders were sent within a minute"
    return _count_denial(DenialCode.ORDER_RATE, reason, context.recent_orders, limits.max_orders_per_minute)


@opening_only
def daily_count_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    reason = f"the account has had {context.orders_today} orders today"
    return _count_denial(DenialCode.TRADES_PER_DAY, reason, context.orders_today, limits.max_trades_per_day)


def _count_denial(code: DenialCode, reason: str, count: int, most: int) -> Denied | None:
    return None if count < most else deny(code, reason, f"this would be order {count + 1}", f"at most {most}")


def auction_denial(ticket: OrderTicket, context: RiskContext) -> Denied | None:
    """Deny an order for an auction that is over today; paper puts it into the next session's."""
    now = context.now.astimezone(NEW_YORK)
    until = dt.time(9, 28) if ticket.time_in_force == "opg" else (usual_close(now.date(), HOME) - CLOSING_CUT).time()
    if is_paper(context.broker) or not until <= now.time() < AUCTIONS_FROM:
        return None
    reason = f"a {ticket.time_in_force} order is taken until {until:%H:%M} and from {AUCTIONS_FROM:%H:%M} New York time"
    measured, limit = f"sent at {now:%H:%M}", f"before {until:%H:%M} or from {AUCTIONS_FROM:%H:%M}; or another"
    return deny(DenialCode.MARKET_CLOSED, f"{reason}; give another time in force", measured, f"{limit} time in force")


def time_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny a time in force that the exchange does not have, or that the desk does not know of it."""
    exchange = EXCHANGES[exchange_code(ticket.symbol)]
    if ticket.is_option or ticket.time_in_force in exchange.times:
        return None
    allowed = " or ".join(exchange.times)
    reason = f"no order for {ticket.symbol} is {ticket.time_in_force} in {exchange.place}: give {allowed}"
    return deny(DenialCode.TIME_IN_FORCE, reason, f"time in force {ticket.time_in_force}", f"time in force {allowed}")


@opening_only
def short_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    exchange = EXCHANGES[exchange_code(ticket.symbol)]
    opening = opening_quantity(ticket, context)
    if ticket.is_option or ticket.side != "sell" or exchange.shorts or not opening:
        return None
    reason = f"the desk sells nothing short in {exchange.place}: sell at most what is held of {ticket.symbol}"
    held = plain(exact(ticket.quantity) - opening)
    return deny(DenialCode.NO_SHORT, reason, f"{plain(opening)} would be sold short", f"at most {held}")


def same_day_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny the sale of shares that were bought today, where an exchange lets them be sold from the next session on."""
    if ticket.is_option or ticket.side != "sell" or not context.bought_today:
        return None
    free = max(assumed_position(ticket, context) - exact(context.bought_today), ZERO)
    if exact(ticket.quantity) <= free:
        return None
    place, bought = EXCHANGES[exchange_code(ticket.symbol)].place, plain(context.bought_today)
    reason = f"{bought} {ticket.symbol} were bought today, and are sold in {place} from the next session on"
    return deny(DenialCode.SAME_DAY, reason, f"sell {plain(ticket.quantity)}", f"at most {plain(free)} today")


def day_limit_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny a limit outside the range that the exchange gives a price on one day. A stop rests at the broker, and may
    be for a later day."""
    band, limit = context.band, exact(ticket.limit_price or 0)
    if ticket.is_option or band is None or not limit or band.low <= limit <= band.high:
        return None
    place = EXCHANGES[exchange_code(ticket.symbol)].place
    low, high, base, asked = (priced_in(price, context) for price in (band.low, band.high, band.base, limit))
    allowed = f"{low} to {high}"
    reason = f"a limit of {asked} for {ticket.symbol} is outside the day's range in {place}: give {allowed}"
    measured = f"{abs(limit / band.base - 1):.2%} from the close of {base}"
    return deny(DenialCode.DAY_LIMIT, reason, measured, allowed)


def market_open_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    auction = ticket.time_in_force in ("opg", "cls")
    if context.market_open or (auction and context.market_open is not None):
        return auction_denial(ticket, context) if auction else None
    exchange = exchange_code(ticket.symbol)
    when, of = at_exchange(context.now, exchange), of_place(exchange)
    if context.market_open is None:
        why = f"whether the exchange{of} is open is not known"
        return deny(DenialCode.MARKET_CLOSED, why, f"unknown at {when}", "open")
    opens = f"; next open {at_exchange(context.next_open, exchange)}" if context.next_open else ""
    return deny(DenialCode.MARKET_CLOSED, f"the exchange{of} is closed{opens}", f"closed at {when}", "open")


def bad_contract(symbol: str, contract: str, now: dt.datetime, opens: bool) -> Denied | None:
    """A contract that ends today may be closed, not opened."""
    found = parse_contract(contract)
    limit = f"an OCC symbol on {symbol} that expires {'after today' if opens else 'today or later'}"
    if found is None:
        reason = f"{contract!r} names no option contract: root, YYMMDD, C or P, strike in thousandths"
        return deny(DenialCode.OPTION_CONTRACT, reason, f"contract {contract}", limit)
    if found.underlying != symbol:
        reason = f"{contract} is a contract on {found.underlying} and not on {symbol}"
        return deny(DenialCode.OPTION_CONTRACT, reason, f"underlying {found.underlying}", limit)
    today = exchange_day(now, HOME)
    if found.expiry < today or (opens and found.expiry == today):
        ended = "today" if found.expiry == today else f"on {found.expiry}"
        return deny(DenialCode.OPTION_CONTRACT, f"{contract} expires {ended}", f"expiry {found.expiry}", limit)
    return None


def not_listed(symbol: str, known: bool) -> Denied:
    """known: the market does not carry it; False when the market did not answer."""
    answer = "does not carry" if known else "does not answer whether it carries"
    measured = "not listed" if known else "listing unknown"
    return deny(DenialCode.NOT_LISTED, f"the market {answer} {symbol}", measured, "a symbol of this market")


@opening_only
def listed_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    return None if context.listed else not_listed(ticket.symbol, context.listed is False)


def contract_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    if ticket.is_option:
        opened = zip(ticket.parts, opening_parts(ticket, context), strict=True)
        found = (bad_contract(ticket.symbol, part[0], context.now, opens > 0) for part, opens in opened)
        return next((denied for denied in found if denied is not None), None)
    named_option = context.instrument is Instrument.OPTION and limits.options_allowed
    if not named_option or not opening_quantity(ticket, context):
        return None
    reason = f"{ticket.symbol} was put forward as an option, and the action names no contract"
    return deny(DenialCode.OPTION_CONTRACT, reason, "no contract", f"an OCC symbol on {ticket.symbol}")


@opening_only
def earnings_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny a written put if an earnings day falls before it expires, or no earnings day is known, unless a person
    allowed it."""
    opened = zip(ticket.parts, opening_parts(ticket, context), strict=True)
    written = [parse_contract(name) for (name, side, _), opens in opened if side == "sell" and opens > 0]
    puts = [one.expiry for one in written if one is not None and one.kind == "put"]
    if not puts or context.across_earnings:
        return None
    expiry, day = max(puts), context.earnings
    if day is not None and day > expiry:
        return None
    known = f"are due on {day}" if day is not None else "are on no day that a source has"
    reason = f"the earnings of {ticket.symbol} {known}, and the put lives until {expiry}; --across-earnings gives leave"
    measured = f"earnings {day}" if day is not None else "earnings unknown"
    return deny(DenialCode.ACROSS_EARNINGS, reason, measured, f"earnings after {expiry}, or leave")


def long_only_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Also shares that cover written calls; a short option's cash is checked by `cash_secured_rule`."""
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


def direction_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny an entry that takes no exposure on, and an exit that does not give it back."""
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
    """Deny a multi-leg order if a leg would cross through zero, if an open or add opens nothing, or if a reduce or
    close opens something."""
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
def instrument_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
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
def order_type_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
    """Deny market orders on options: their quotes are wide, and one could fill anywhere."""
    if not ticket.is_option or ticket.order_type == "limit":
        return None
    reason = f"{ticket.contract or 'a leg'} is an option, and options are ordered with a limit price"
    return deny(DenialCode.ORDER_TYPE, reason, f"order type {ticket.order_type}", "order type limit")
