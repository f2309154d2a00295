"""Rules on the account and its research: trading state, provider, verdict, cooldown, counts, session."""

from __future__ import annotations

import datetime as dt

from chordesk.models.market import plain_name
from chordesk.models.orders import DenialCode, Denied, OrderTicket, RiskContext, RiskLimits
from chordesk.models.research import Rating
from chordesk.models.settings import REPLAYING
from chordesk.models.settings.accounts import PAPER, is_paper
from chordesk.models.states import TradingState
from chordesk.tools.market.clock import NEW_YORK
from chordesk.tools.risk.denials import deny, format_span
from chordesk.tools.risk.exposure import only_reduces, opening_only

# Orders by the rulebook model or on a market of past prices are simulations, so they trade on paper alone.
PAPER_ONLY_PROVIDERS = frozenset({"rulebook"})
PAPER_ONLY_MARKETS: frozenset[str] = frozenset(REPLAYING)
# New York time from which orders for the next day's auctions are taken.
AUCTIONS_FROM = dt.time(19)
_BARRED = frozenset({Rating.INSUFFICIENT, Rating.PASS})  # nothing is opened or added on these


def halted(state: TradingState, why: str, account: str) -> Denied:
    """Return the denial for an order of a halted account."""
    reason = f"trading of {account} is halted: {why or 'no reason given'}; `desk resume` lets it go on"
    return deny(DenialCode.HALTED, reason, f"trading {state}", f"trading {TradingState.ACTIVE}")


def trading_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if context.trading is TradingState.ACTIVE:
        return None
    if context.trading is not TradingState.REDUCING:
        return halted(context.trading, context.trading_why, ticket.account)
    if only_reduces(ticket, context):
        return None
    reason = f"{ticket.account} only gives exposure back: {context.trading_why or 'no reason given'}"
    limit = f"trading {TradingState.ACTIVE} to take any on"
    return deny(DenialCode.REDUCING, reason, f"trading {context.trading}", limit)


def provider_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
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
def data_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    here, *others = context.markets
    changed = next((one for one in others if one != here and plain_name(one) == plain_name(here)), None)
    if changed is None:
        return None
    reason = f"the run looked at the data {changed}, and those here are {here}: a file of DESK_DATA has changed"
    return deny(DenialCode.SETTINGS_DIFFER, reason, changed, here)


def no_verdict(symbol: str) -> Denied:
    reason = f"the run has no verdict on {symbol}; research it first"
    return deny(DenialCode.NO_VERDICT, reason, "no verdict", "a verdict of the same run")


@opening_only
def verdict_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if context.rating is None:
        return no_verdict(ticket.symbol)
    if context.rating not in _BARRED:
        return None
    reason = f"a verdict of {context.rating} on {ticket.symbol} does not allow to {ticket.action}"
    allowed = ", ".join(rating for rating in Rating if rating not in _BARRED)
    return deny(DenialCode.NOT_TRADABLE, reason, f"verdict {context.rating}", f"one of {allowed}")


@opening_only
def verdict_age_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
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
def unresolved_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if context.unresolved is None:
        return None
    reason = f"what became of order {context.unresolved} on {ticket.symbol} is not known; `desk reconcile` asks again"
    return deny(DenialCode.UNRESOLVED, reason, "an order without an answer", "no such order on the symbol")


@opening_only
def cooldown_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if context.last_order_at is None:
        return None
    cooldown = dt.timedelta(hours=limits.cooldown_hours)
    elapsed = context.now - context.last_order_at
    if elapsed >= cooldown:
        return None
    reason = f"{ticket.symbol} rests after its last order; {format_span(cooldown - elapsed)} of market time remain"
    measured, limit = f"{format_span(elapsed)} since the last order", f"at least {format_span(cooldown)}"
    return deny(DenialCode.COOLDOWN, reason, measured, limit)


def duplicate_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if context.open_order is None:
        return None
    reason = f"order {context.open_order} to {ticket.side} {ticket.traded} is still open"
    return deny(DenialCode.DUPLICATE, reason, "1 open order of this kind", "none")


@opening_only
def rejections_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    most = limits.max_consecutive_rejections
    if context.rejections < most:
        return None
    reason = f"the broker refused the last {context.rejections} orders of today; `desk resume` starts the count anew"
    return deny(DenialCode.CONSECUTIVE_REJECTIONS, reason, f"{context.rejections} in a row", f"fewer than {most}")


@opening_only
def rate_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    reason = f"{context.recent_orders} orders were sent within a minute"
    return _count_denial(DenialCode.ORDER_RATE, reason, context.recent_orders, limits.max_orders_per_minute)


@opening_only
def daily_count_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    reason = f"the account has had {context.orders_today} orders today"
    return _count_denial(DenialCode.TRADES_PER_DAY, reason, context.orders_today, limits.max_trades_per_day)


def _count_denial(code: DenialCode, reason: str, count: int, most: int) -> Denied | None:
    return None if count < most else deny(code, reason, f"this would be order {count + 1}", f"at most {most}")


def auction_denial(ticket: OrderTicket, context: RiskContext) -> Denied | None:
    """Return a denial for an order for the opening or the closing auction that its exchange takes no more today; paper
    puts it into the next session's."""
    until = {"opg": dt.time(9, 28), "cls": dt.time(15, 50)}[ticket.time_in_force]
    now = context.now.astimezone(NEW_YORK)
    if is_paper(context.broker) or not until <= now.time() < AUCTIONS_FROM:
        return None
    reason = f"a {ticket.time_in_force} order is taken until {until:%H:%M} and from {AUCTIONS_FROM:%H:%M} New York time"
    measured, limit = f"sent at {now:%H:%M}", f"before {until:%H:%M} or from {AUCTIONS_FROM:%H:%M}; or another"
    return deny(DenialCode.MARKET_CLOSED, f"{reason}; give another time in force", measured, f"{limit} time in force")


def market_open_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    auction = ticket.time_in_force in ("opg", "cls")
    if context.market_open or (auction and context.market_open is not None):
        return auction_denial(ticket, context) if auction else None
    when = f"{context.now:%Y-%m-%d %H:%M %Z}"
    if context.market_open is None:
        return deny(DenialCode.MARKET_CLOSED, "whether the exchange is open is not known", f"unknown at {when}", "open")
    opens = f"; next open {context.next_open:%Y-%m-%d %H:%M %Z}" if context.next_open else ""
    return deny(DenialCode.MARKET_CLOSED, f"the exchange is closed{opens}", f"closed at {when}", "open")
