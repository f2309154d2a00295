"""Pre-trade rules in their order, the first denial wins; and what each rule measured of an order that passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chordesk.models import features
from chordesk.models.descriptions import said
from chordesk.models.exchanges import HOME, exchange_code
from chordesk.models.features import Denial
from chordesk.models.orders import Cleared, Denied, OrderTicket, RiskContext
from chordesk.models.orders import DenialCode as Code
from chordesk.models.settings import Settings
from chordesk.tools.risk import amounts, conduct
from chordesk.tools.risk.codes import deny
from chordesk.tools.risk.exposure import Rule, only_reduces, opening_only

_UNREAD = LookupError("nothing was collected for it")


def _of_features() -> dict[Rule, tuple[Code, ...]]:
    """Return the rules of features that are in force. They come last: an order that the desk denies is not shown to
    them."""
    found = Code.of_features()
    return {_rule(Code(name), one): (Code(name),) for name, one in found.items()}


def _rule(code: Code, of_feature: Denial) -> Rule:
    def rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
        try:
            if of_feature.facts and isinstance(lost := context.facts.get(code, _UNREAD), Exception):
                return deny(code, f"what it goes by cannot be read: {lost}", "not known", of_feature.remedy)
            decide = features.part("denials", code, of_feature.rule, kind=Callable)
            found = decide(ticket, context, limits)
            return None if found is None else deny(code, *map(str, found))
        except (Exception, SystemExit) as error:  # what cannot be judged is not sent
            return deny(code, f"its rule {of_feature.rule} fails: {said(error)}", "no answer", of_feature.remedy)

    return rule if of_feature.exits else opening_only(rule)


# Each rule in its order, with the codes that it may deny with.
RULES: Mapping[Rule, tuple[Code, ...]] = {
    conduct.trading_rule: (Code.HALTED, Code.REDUCING),
    conduct.provider_rule: (Code.PROVIDER_NOT_ALLOWED,),
    conduct.data_rule: (Code.SETTINGS_DIFFER,),
    conduct.listed_rule: (Code.NOT_LISTED,),
    conduct.volume_rule: (Code.NO_VOLUME,),
    conduct.verdict_rule: (Code.NO_VERDICT, Code.NOT_TRADABLE),
    conduct.verdict_age_rule: (Code.VERDICT_STALE,),
    conduct.contract_rule: (Code.OPTION_CONTRACT,),
    conduct.unresolved_rule: (Code.UNRESOLVED,),
    conduct.cooldown_rule: (Code.COOLDOWN,),
    conduct.long_only_rule: (Code.LONG_ONLY,),
    conduct.short_rule: (Code.NO_SHORT,),
    conduct.same_day_rule: (Code.SAME_DAY,),
    conduct.direction_rule: (Code.MALFORMED,),
    conduct.instrument_rule: (Code.STOCKS_ONLY,),
    conduct.order_type_rule: (Code.ORDER_TYPE,),
    conduct.time_rule: (Code.TIME_IN_FORCE,),
    conduct.day_limit_rule: (Code.DAY_LIMIT,),
    conduct.earnings_rule: (Code.ACROSS_EARNINGS,),
    amounts.rate_rule: (Code.FX_UNKNOWN,),
    amounts.notional_rule: (Code.NOTIONAL_PER_ORDER,),
    amounts.priced_rule: (Code.UNPRICED,),
    amounts.collar_rule: (Code.COLLAR,),
    amounts.quote_age_rule: (Code.QUOTE_STALE,),
    amounts.share_rule: (Code.SHARE_PER_SYMBOL,),
    amounts.symbol_rule: (Code.NOTIONAL_PER_SYMBOL,),
    amounts.sector_rule: (Code.SHARE_PER_SECTOR,),
    amounts.gross_rule: (Code.GROSS_NOTIONAL,),
    amounts.buying_power_rule: (Code.BUYING_POWER,),
    amounts.cash_secured_rule: (Code.CASH_SECURED,),
    amounts.daily_loss_rule: (Code.DAILY_LOSS,),
    amounts.drawdown_rule: (Code.DRAWDOWN,),
    conduct.rejections_rule: (Code.CONSECUTIVE_REJECTIONS,),
    conduct.duplicate_rule: (Code.DUPLICATE,),
    conduct.rate_rule: (Code.ORDER_RATE,),
    conduct.daily_count_rule: (Code.TRADES_PER_DAY,),
    conduct.market_open_rule: (Code.MARKET_CLOSED,),
    **_of_features(),
}


# Rules that have nothing to say of a share of New York in an account in dollars, and are not on record there.
_ABROAD: frozenset[Rule] = frozenset(
    {amounts.rate_rule, conduct.short_rule, conduct.same_day_rule, conduct.time_rule, conduct.day_limit_rule}
)


def _is_home(ticket: OrderTicket, context: RiskContext) -> bool:
    """Return whether an order and all positions are of New York, in the account's currency."""
    held = (one.currency is None for one in context.account.positions)
    return exchange_code(ticket.symbol) == HOME and context.fx is None and all(held)


def check(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Cleared | Denied:
    denials = (rule(ticket, context, limits) for rule in RULES)
    return next((denied for denied in denials if denied is not None), Cleared())


# Figures of the rules that an order passes: what each one measured, by the rule's own arithmetic.
#
# A rule states its figure only where it denies. So each is asked again with limits that nothing meets, and that denial
# has the figure; it decides nothing.

_UNMEETABLE = -1e6
_AMOUNTS = (
    "max_order_notional",
    "max_symbol_notional",
    "max_gross_notional",
    "max_symbol_share",
    "max_sector_share",
    "max_daily_loss",
    "max_drawdown",
    "max_price_collar",
    "max_quote_age_minutes",
    "max_verdict_age_hours",
)
_STRICT = dict.fromkeys(_AMOUNTS, _UNMEETABLE)
_COUNTS = {"max_orders_per_minute": 0, "max_trades_per_day": 0, "max_consecutive_rejections": 0}


@dataclass(frozen=True, slots=True)
class Measured:
    """One rule on one order."""

    codes: tuple[Code, ...]  # its possible denials
    denied: Denied | None  # its answer, None when the order passes
    figure: str | None  # the measured figure, None where the rule has one only in a denial
    binds: bool  # False for a rule on entries, and an order that only reduces


def measured(ticket: OrderTicket, context: RiskContext, limits: Settings) -> list[Measured]:
    """Return every rule that an order can meet with its answer and figure, in their order."""
    strict, poor = limits.model_copy(update={**_STRICT, **_COUNTS}), _without_cash(context)
    exits, home = only_reduces(ticket, context), _is_home(ticket, context)
    silent = _without_facts(context, exits=exits)
    rules = (rule for rule, codes in RULES.items() if not ((home and rule in _ABROAD) or silent.intersection(codes)))
    return [_measured(rule, ticket, context, poor, limits, strict, exits=exits) for rule in rules]


def _without_facts(context: RiskContext, *, exits: bool) -> set[Code]:
    """Return codes of rules of features that have nothing to judge by, and are not on record."""
    found = (Code(name) for name, one in Code.of_features().items() if one.facts)
    return {code for code in found if context.facts.get(code, None if exits else "") is None}


def _measured(
    rule: Rule,
    ticket: OrderTicket,
    context: RiskContext,
    poor: RiskContext,
    limits: Settings,
    strict: Settings,
    *,
    exits: bool,
) -> Measured:
    denied = rule(ticket, context, limits)
    of_cash = rule in (amounts.buying_power_rule, amounts.cash_secured_rule)
    shown = denied or rule(ticket, poor if of_cash else context, strict)
    binds = not (exits and hasattr(rule, "__wrapped__"))  # opening_only wraps a rule on entries
    return Measured(RULES[rule], denied, shown.measured if shown is not None else None, binds)


def _without_cash(context: RiskContext) -> RiskContext:
    return context.model_copy(update={"account": context.account.model_copy(update={"cash": _UNMEETABLE * 1e6})})
