"""Pre-trade rules in their order: pure functions of a ticket, its context and the limits; the first denial wins.

A figure that is not known denies, and the reason names it. A limit met exactly is allowed.
"""

from __future__ import annotations

from chordesk.models.orders import Cleared, Denied, OrderTicket, RiskContext, RiskLimits
from chordesk.models.settings import Settings
from chordesk.tools.risk import amounts, conduct, instruments, losses, prices
from chordesk.tools.risk.exposure import Rule

RULES: tuple[Rule, ...] = (
    conduct.trading_rule,
    conduct.provider_rule,
    conduct.data_rule,
    instruments.listed_rule,
    conduct.verdict_rule,
    conduct.verdict_age_rule,
    instruments.contract_rule,
    conduct.unresolved_rule,
    conduct.cooldown_rule,
    instruments.long_only_rule,
    instruments.direction_rule,
    instruments.instrument_rule,
    instruments.order_type_rule,
    amounts.notional_rule,
    prices.priced_rule,
    prices.collar_rule,
    prices.quote_age_rule,
    amounts.share_rule,
    amounts.symbol_rule,
    amounts.sector_rule,
    amounts.gross_rule,
    amounts.buying_power_rule,
    amounts.cash_secured_rule,
    losses.daily_loss_rule,
    losses.drawdown_rule,
    conduct.rejections_rule,
    conduct.duplicate_rule,
    conduct.rate_rule,
    conduct.daily_count_rule,
    conduct.market_open_rule,
)


def check(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Cleared | Denied:
    """Return Cleared, or the first rule's denial in the order of RULES."""
    denials = (rule(ticket, context, limits) for rule in RULES)
    return next((denied for denied in denials if denied is not None), Cleared())


_SAME_NAME = tuple(name for name in RiskLimits.model_fields if name in Settings.model_fields)


def limits_of(settings: Settings) -> RiskLimits:
    allowed = {"shares_allowed": settings.stock_only or settings.options_mode != "options-only"}
    named = {name: getattr(settings, name) for name in _SAME_NAME}
    return RiskLimits(**{**named, **allowed, "options_allowed": settings.options_allowed})
