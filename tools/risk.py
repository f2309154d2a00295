"""Pre-trade rules: pure functions of a ticket, its context and the limits; the first denial wins.

A figure that is not known denies, and the reason names it. A limit met exactly is allowed. Cash is counted as a cash
account does: what a buy may cost with slippage and commission must be free, sells that are not filled fund nothing,
and a short sale is secured in full (its proceeds and as much again are held back).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from models.orders import AccountView, Cleared, DenialCode, Denied, OrderTicket, RiskContext, RiskLimits
from models.research import Instrument, Rating
from models.settings import Settings
from tools.decimals import exact, money, plain

Rule = Callable[[OrderTicket, RiskContext, RiskLimits], Denied | None]

# What is no person's money and no person's market trades on paper alone.
PAPER_ONLY_PROVIDERS = frozenset({"rulebook"})
PAPER_ONLY_MARKETS = frozenset({"replay"})
PAPER = "paper"
TICK = Decimal("0.0001")


def limits_of(settings: Settings) -> RiskLimits:
    return RiskLimits(
        allow_short=settings.allow_short,
        options_allowed=settings.options_allowed,
        shares_allowed=settings.stock_only or settings.options_mode != "options-only",
        max_order_notional=settings.max_order_notional,
        max_symbol_share=settings.max_symbol_share,
        cooldown_hours=settings.cooldown_hours,
        slippage_bps=settings.slippage_bps,
        commission_per_share=settings.commission_per_share,
    )


def check(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Cleared | Denied:
    """Cleared, or the first rule's denial in the order of RULES."""
    for rule in RULES:
        denied = rule(ticket, context, limits)
        if denied is not None:
            return denied
    return Cleared()


def deny(code: DenialCode, reason: str, measured: str, limit: str) -> Denied:
    return Denied(code=code, reason=reason, measured=measured, limit=limit)


def opening_shares(held: Decimal, side: str, quantity: Decimal) -> Decimal:
    """The part of an order that takes on exposure; the rest gives back what is held (negative when short)."""
    against = -held if side == "buy" else held
    return quantity - min(quantity, max(against, Decimal(0)))


def cost(shares: Decimal, price: Decimal, limits: RiskLimits) -> Decimal:
    """Cash that taking on so many shares may need, slippage and commission included."""
    return shares * (slipped(price, "buy", limits.slippage_bps) + exact(limits.commission_per_share))


def slipped(price: Decimal, side: str, basis_points: float) -> Decimal:
    """A price moved by the slippage against the order, and rounded against it to 0.0001."""
    shift = exact(basis_points) / 10_000
    if side == "buy":
        return (price * (1 + shift)).quantize(TICK, ROUND_CEILING)
    return max(TICK, (price * (1 - shift)).quantize(TICK, ROUND_FLOOR))


def free_cash(account: AccountView) -> Decimal | None:
    """Cash that nothing is held against: twice the value of each short is held back. None if one has no price."""
    free = exact(account.cash)
    for position in account.positions:
        if position.quantity >= 0:
            continue
        if position.market_price is None:
            return None
        free += 2 * exact(position.quantity) * exact(position.market_price)
    return free


def _held(context: RiskContext, symbol: str) -> Decimal:
    return sum((exact(held.quantity) for held in context.account.positions if held.symbol == symbol), Decimal(0))


def _base(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """Shares this order starts from, if all that is pledged on its own side fills and nothing on the other."""
    held = _held(context, ticket.symbol)
    pledged = exact(context.pledged_buys) if ticket.side == "buy" else -exact(context.pledged_sells)
    return held + pledged


def _opening(ticket: OrderTicket, context: RiskContext) -> Decimal:
    return opening_shares(_base(ticket, context), ticket.side, exact(ticket.quantity))


def provider_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if context.broker != PAPER:
        barred = sorted((PAPER_ONLY_PROVIDERS & set(context.providers)) | (PAPER_ONLY_MARKETS & set(context.markets)))
        if barred:
            reason = f"{' and '.join(barred)} may trade with the {PAPER} broker only"
            return deny(DenialCode.PROVIDER_NOT_ALLOWED, reason, f"broker {context.broker}", f"broker {PAPER}")
    if ticket.account != context.broker:
        reason = f"the account {ticket.account} is not one of the broker {context.broker}"
        return deny(DenialCode.PROVIDER_NOT_ALLOWED, reason, f"account {ticket.account}", f"account {context.broker}")
    return None


def verdict_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if context.rating is None:
        return no_verdict(ticket.symbol)
    barred = {Rating.INSUFFICIENT}
    if ticket.action in ("open", "add"):
        barred.add(Rating.PASS)
    if context.rating not in barred:
        return None
    reason = f"a verdict of {context.rating} on {ticket.symbol} does not allow to {ticket.action}"
    allowed = ", ".join(rating for rating in Rating if rating not in barred)
    return deny(DenialCode.NOT_TRADABLE, reason, f"verdict {context.rating}", f"one of {allowed}")


def no_verdict(symbol: str) -> Denied:
    reason = f"the run has no verdict on {symbol}; research it first"
    return deny(DenialCode.NO_VERDICT, reason, "no verdict", "a verdict of the same run")


def cooldown_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if context.last_order_at is None:
        return None
    cooldown = dt.timedelta(hours=limits.cooldown_hours)
    elapsed = context.now - context.last_order_at
    if elapsed >= cooldown:
        return None
    reason = f"{ticket.symbol} rests after its last order; {_span(cooldown - elapsed)} of market time remain"
    return deny(DenialCode.COOLDOWN, reason, f"{_span(elapsed)} since the last order", f"at least {_span(cooldown)}")


def _span(span: dt.timedelta) -> str:
    """Hours, minutes and seconds, so that what remains never reads as nothing."""
    seconds = span / dt.timedelta(seconds=1)
    sign, whole = ("-" if seconds < 0 else ""), max(1, round(abs(seconds))) if seconds else 0
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    return sign + (" ".join(f"{count} {unit}" for count, unit in parts if count) or "0 h")


def long_only_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if limits.allow_short or ticket.side != "sell" or not _opening(ticket, context):
        return None
    held = max(_base(ticket, context), Decimal(0))
    reason = f"selling {plain(ticket.quantity)} {ticket.symbol} with {plain(held)} free to sell would go short"
    return deny(DenialCode.LONG_ONLY, reason, f"sell {plain(ticket.quantity)} shares", f"at most {plain(held)} shares")


def direction_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """open and add take exposure on, reduce and close give it back; an order does one of the two."""
    opening, quantity = _opening(ticket, context), exact(ticket.quantity)
    if ticket.action in ("open", "add"):
        wrong, limit = opening != quantity, "takes on exposure alone"
    else:
        wrong, limit = opening > 0, "gives back exposure alone"
    if not wrong:
        return None
    held = plain(_base(ticket, context))
    reason = f"{ticket.action} with a {ticket.side} of {plain(quantity)} contradicts the {held} shares held"
    return deny(DenialCode.MALFORMED, reason, f"{plain(opening)} of {plain(quantity)} shares open exposure", limit)


def instrument_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    found = context.instrument
    if found in (Instrument.EQUITY, Instrument.ETF) and limits.shares_allowed:
        return None
    if found is None:
        reason = f"the instrument of {ticket.symbol} is not known"
    elif found is not Instrument.OPTION:
        reason = "options_mode=options-only: shares are not traded"
    elif limits.options_allowed:
        reason = f"{ticket.symbol} was put forward as an option, and no broker here takes option orders"
    else:
        reason = f"{ticket.symbol} was put forward as an option, and the desk trades stocks only"
    allowed = "equity or etf" if limits.shares_allowed else "no shares"
    return deny(DenialCode.STOCKS_ONLY, reason, f"instrument {found or 'unknown'}", allowed)


def notional_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    notional = exact(ticket.quantity) * exact(context.price)
    most = exact(limits.max_order_notional)
    if notional <= most:
        return None
    reason = f"{plain(ticket.quantity)} {ticket.symbol} at {money(context.price)} is more than one order may be"
    return deny(DenialCode.NOTIONAL_PER_ORDER, reason, f"notional {money(notional)}", f"at most {money(most)}")


def share_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if not _opening(ticket, context):
        return None
    limit = f"at most {exact(limits.max_symbol_share):.2%} of equity"
    if context.account.equity is None:
        unpriced = ", ".join(held.symbol for held in context.account.positions if held.market_price is None)
        reason = f"the account's equity is not known: no price for {unpriced or 'a position'}"
        return deny(DenialCode.SHARE_PER_SYMBOL, reason, "equity unknown", limit)
    equity = exact(context.account.equity)
    signed = exact(ticket.quantity) * (1 if ticket.side == "buy" else -1)
    exposure = abs(_base(ticket, context) + signed) * exact(context.price)
    if exposure <= exact(limits.max_symbol_share) * equity:
        return None
    reason = f"{ticket.symbol} would be {money(exposure)} of an equity of {money(equity)}"
    measured = f"{exposure / equity:.4%} of equity" if equity > 0 else "no equity"
    return deny(DenialCode.SHARE_PER_SYMBOL, reason, measured, limit)


def buying_power_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    opening = _opening(ticket, context)
    if not opening:
        return None
    need = cost(opening, exact(context.price), limits)
    free = free_cash(context.account)
    if free is None:
        reason = "free cash is not known: a short position has no price"
        return deny(DenialCode.BUYING_POWER, reason, "free cash unknown", f"{money(need)} needed")
    left = free - exact(context.pledged_cash)
    if need <= left:
        return None
    reason = f"{plain(opening)} {ticket.symbol} may need more than the cash that is free"
    return deny(DenialCode.BUYING_POWER, reason, f"needs {money(need)}", f"{money(left)} free")


def market_open_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if context.market_open:
        return None
    when = f"{context.now:%Y-%m-%d %H:%M %Z}"
    if context.market_open is None:
        return deny(DenialCode.MARKET_CLOSED, "whether the exchange is open is not known", f"unknown at {when}", "open")
    opens = f"; next open {context.next_open:%Y-%m-%d %H:%M %Z}" if context.next_open else ""
    return deny(DenialCode.MARKET_CLOSED, f"the exchange is closed{opens}", f"closed at {when}", "open")


RULES: tuple[Rule, ...] = (
    provider_rule,
    verdict_rule,
    cooldown_rule,
    long_only_rule,
    direction_rule,
    instrument_rule,
    notional_rule,
    share_rule,
    buying_power_rule,
    market_open_rule,
)
