"""Denials: a refusal as data, the meaning of each denial code, and the settings that move its limit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from chordesk.models.features import Denial
from chordesk.models.kinds import OF_NONE
from chordesk.models.orders import DenialCode, Denied
from chordesk.models.orders import DenialCode as Code
from chordesk.models.settings import Settings
from chordesk.models.settings.variables import PREFIX
from chordesk.tools.decimals import plain


@dataclass(frozen=True, slots=True)
class CodeMeaning:
    denies: str  # the refused orders
    settings: tuple[str, ...] = ()  # names of the settings that decide, if any
    exits: bool = False  # whether it binds an order that only reduces, too

    @property
    def binds(self) -> str:
        return "entries and exits" if self.exits else "entries"

    def limits(self, settings: Settings) -> tuple[tuple[str, str], ...]:
        return tuple((variable_name(name), shown(getattr(settings, name))) for name in self.settings)


def variable_name(name: str) -> str:
    return Settings.LIVE_SWITCH if name == "trader_live" else PREFIX + name.upper()


def shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return plain(value) if isinstance(value, float) else "not set" if value is None else str(value)


CODES: Mapping[Code, CodeMeaning] = {
    Code.HALTED: CodeMeaning("any order while the account is halted; `desk resume` ends it", exits=True),
    Code.REDUCING: CodeMeaning("more exposure while the account may only reduce"),
    Code.PROVIDER_NOT_ALLOWED: CodeMeaning(
        "the rulebook model or the replay market on any broker but paper", exits=True
    ),
    Code.NOT_LISTED: CodeMeaning("a symbol that the market does not list, or may not list"),
    Code.NO_VOLUME: CodeMeaning("a symbol without any volume in its last five sessions"),
    Code.NO_VERDICT: CodeMeaning("a symbol without a verdict of the decision's runs"),
    Code.NOT_TRADABLE: CodeMeaning("opening or adding on a verdict of INSUFFICIENT or PASS"),
    Code.VERDICT_STALE: CodeMeaning("a verdict older than this, or of a later day", ("max_verdict_age_hours",)),
    Code.MALFORMED: CodeMeaning(
        "a side against the action, both or neither of quantity and notional, less than one whole", exits=True
    ),
    Code.OPTION_CONTRACT: CodeMeaning(
        "an option without an OCC contract on the symbol, or one that expires today (it may still be closed)",
        exits=True,
    ),
    Code.UNRESOLVED: CodeMeaning("a symbol with an order of unknown outcome; `desk reconcile` asks again"),
    Code.COOLDOWN: CodeMeaning("an order on the symbol within so many hours of market time", ("cooldown_hours",)),
    Code.LONG_ONLY: CodeMeaning(
        "selling more shares than are held, or those that cover written calls", ("allow_short",), exits=True
    ),
    Code.STOCKS_ONLY: CodeMeaning("an instrument that may not be traded", ("stock_only", "options_mode")),
    Code.ORDER_TYPE: CodeMeaning("an option order that opens without a limit price"),
    Code.ACROSS_EARNINGS: CodeMeaning(
        "a written put whose life spans a day of earnings, or of which no such day is known, without --across-earnings"
    ),
    Code.NOTIONAL_PER_ORDER: CodeMeaning("an order larger than this", ("max_order_notional",)),
    Code.COLLAR: CodeMeaning("a limit price further than this from the last price", ("max_price_collar",), exits=True),
    Code.UNPRICED: CodeMeaning("an order without a price; an exit waits for a person instead"),
    Code.LOT: CodeMeaning(
        "less than a lot or the least amount of a listing, or an entry while its step or lot is unknown",
        exits=True,
    ),
    Code.DAY_LIMIT: CodeMeaning("a limit outside the range of the exchange's day", exits=True),
    Code.SAME_DAY: CodeMeaning(
        "a sale of what was bought today, where it is sold from the next session on", exits=True
    ),
    Code.NO_SHORT: CodeMeaning("a short sale at an exchange where the desk sells none"),
    Code.TIME_IN_FORCE: CodeMeaning("a time in force that the exchange does not have", exits=True),
    Code.FX_UNKNOWN: CodeMeaning(
        "an order while no exchange rate younger than this turns its price or a position into the account's currency; "
        "an exit takes the last known rate",
        ("max_fx_age",),
    ),
    Code.QUOTE_STALE: CodeMeaning(
        "a quote older than this; an exit gets a limit price instead", ("max_quote_age_minutes",)
    ),
    Code.SHARE_PER_SYMBOL: CodeMeaning("more than this share of equity in one symbol", ("max_symbol_share",)),
    Code.NOTIONAL_PER_SYMBOL: CodeMeaning("more than this in one symbol", ("max_symbol_notional",)),
    Code.SHARE_PER_SECTOR: CodeMeaning(
        "more than this share of equity in one sector; an unknown sector may be any", ("max_sector_share",)
    ),
    Code.GROSS_NOTIONAL: CodeMeaning("more than this in all symbols, open orders included", ("max_gross_notional",)),
    Code.BUYING_POWER: CodeMeaning("more than free cash, slippage and commission included"),
    Code.CASH_SECURED: CodeMeaning(
        "an option that opens anything but a put sold against free cash or a call sold against 100 free shares"
    ),
    Code.DAILY_LOSS: CodeMeaning(
        "more exposure after this share was lost since the last session's mark, or today's first",
        ("max_daily_loss",),
    ),
    Code.DRAWDOWN: CodeMeaning("more exposure after a fall of this share from the highest equity", ("max_drawdown",)),
    Code.CONSECUTIVE_REJECTIONS: CodeMeaning(
        "more exposure after so many refusals of the broker in a row", ("max_consecutive_rejections",)
    ),
    Code.DUPLICATE: CodeMeaning("an order beside an open one on the same side", exits=True),
    Code.ORDER_RATE: CodeMeaning("more orders than this in a minute", ("max_orders_per_minute",)),
    Code.TRADES_PER_DAY: CodeMeaning("more orders than this in an exchange day", ("max_trades_per_day",)),
    Code.MARKET_CLOSED: CodeMeaning("an order outside the session, or for an auction that is over", exits=True),
    Code.PREVIEW_STALE: CodeMeaning(
        "a preview older than this in market or real time", ("preview_minutes",), exits=True
    ),
    Code.PREVIEW_ALTERED: CodeMeaning("an order that differs from its preview's hash", exits=True),
    Code.PRICE_MOVED: CodeMeaning("a price further than this from the preview's", ("max_price_collar",), exits=True),
    Code.APPROVAL_DENIED: CodeMeaning("an order that a person denied or did not approve", ("approval",), exits=True),
    Code.APPROVAL_EXPIRED: CodeMeaning(
        "an order that no person answered in time", ("approval", "preview_minutes"), exits=True
    ),
    Code.RUN_STOPPED: CodeMeaning("an order of a run that is stopping, stopped or closed", exits=True),
    Code.NOT_RECONCILED: CodeMeaning("any order while the account cannot be compared with its broker", exits=True),
    Code.SETTINGS_DIFFER: CodeMeaning(
        "an order of a run with another live switch, broker, limit or data version than the trade worker; a reducing "
        "order may differ in limits and data",
        exits=True,
    ),
    Code.NO_MANDATE: CodeMeaning(
        "real money without a mandate in force; `desk arm` writes one", ("mandate_public_key",), exits=True
    ),
    Code.MANDATE_EXCEEDED: CodeMeaning("more than the mandate allows: money, orders, symbols or hours", exits=True),
}


def meaning(code: Code) -> CodeMeaning:
    """Return what a code means, of a feature too."""
    if (known := CODES.get(code)) is not None:
        return known
    found: Denial | None = Code.of_features().get(code)
    if found is None:
        return CodeMeaning(f"an order by a rule {OF_NONE}")
    return CodeMeaning(f"{found.denies}; {found.remedy}", found.settings, found.exits)


def meanings() -> dict[Code, CodeMeaning]:
    return {code: meaning(code) for code in (*CODES, *map(Code, Code.of_features()))}


def deny(code: DenialCode, reason: str, measured: str, limit: str) -> Denied:
    return Denied(code=code, reason=reason, measured=measured, limit=limit)


def format_span(length: dt.timedelta) -> str:
    """Return hours, minutes and seconds as text, so that a short remainder never reads as nothing."""
    seconds = length / dt.timedelta(seconds=1)
    sign, whole = ("-" if seconds < 0 else ""), max(1, round(abs(seconds))) if seconds else 0
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    return sign + (" ".join(f"{count} {unit}" for count, unit in parts if count) or "0 h")
