"""Models of orders: ticket, risk checks and their denials, a broker's answers and account, and signed mandates."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from chordesk.models.answers import Frozen, Instrument, Rating
from chordesk.models.day_limits import DayBand
from chordesk.models.kinds import OpenKind
from chordesk.models.market import OrderLeg, Price, Quote
from chordesk.models.money import DOLLAR, Duty, FxRate
from chordesk.models.order_terms import OrderType, TimeInForce
from chordesk.models.states import TradingState

Amount = Annotated[float, Field(allow_inf_nan=False)]
Quantity = Annotated[float, Field(gt=0, allow_inf_nan=False)]
HASH_SHOWN = r"^[0-9a-f]{12,64}$"  # of a preview, or as much of it as `desk approvals` shows


class DenialCode(OpenKind, member="denials"):
    """Reasons for which an action becomes no order; features have more. Every code has a test that triggers it and one
    just inside the limit."""

    NO_VERDICT = "no_verdict"
    NOT_TRADABLE = "not_tradable"
    MALFORMED = "malformed"
    COOLDOWN = "cooldown"
    LONG_ONLY = "long_only"
    STOCKS_ONLY = "stocks_only"
    NOTIONAL_PER_ORDER = "notional_per_order"
    SHARE_PER_SYMBOL = "share_per_symbol"
    BUYING_POWER = "buying_power"
    MARKET_CLOSED = "market_closed"
    UNPRICED = "unpriced"
    PROVIDER_NOT_ALLOWED = "provider_not_allowed"
    PREVIEW_STALE = "preview_stale"
    PREVIEW_ALTERED = "preview_altered"
    RUN_STOPPED = "run_stopped"
    HALTED = "halted"
    REDUCING = "reducing"
    NOTIONAL_PER_SYMBOL = "notional_per_symbol"
    GROSS_NOTIONAL = "gross_notional"
    SHARE_PER_SECTOR = "share_per_sector"
    ORDER_RATE = "order_rate"
    TRADES_PER_DAY = "trades_per_day"
    DAILY_LOSS = "daily_loss"
    DRAWDOWN = "drawdown"
    CONSECUTIVE_REJECTIONS = "consecutive_rejections"
    NOT_LISTED = "not_listed"
    ORDER_TYPE = "order_type"
    COLLAR = "collar"
    QUOTE_STALE = "quote_stale"
    VERDICT_STALE = "verdict_stale"
    OPTION_CONTRACT = "option_contract"
    CASH_SECURED = "cash_secured"
    DUPLICATE = "duplicate"
    UNRESOLVED = "unresolved"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    NO_MANDATE = "no_mandate"
    MANDATE_EXCEEDED = "mandate_exceeded"
    NOT_RECONCILED = "not_reconciled"
    SETTINGS_DIFFER = "settings_differ"
    PRICE_MOVED = "price_moved"
    ACROSS_EARNINGS = "across_earnings"
    NO_VOLUME = "no_volume"
    FX_UNKNOWN = "fx_unknown"
    LOT = "lot"
    DAY_LIMIT = "day_limit"
    SAME_DAY = "same_day"
    NO_SHORT = "no_short"
    TIME_IN_FORCE = "time_in_force"


class Cleared(Frozen):
    cleared: Literal[True] = True


class Denied(Frozen):
    """A refusal as data: the figure measured and the limit it broke, as text with units."""

    cleared: Literal[False] = False
    code: DenialCode
    reason: str
    measured: str
    limit: str


class OrderTicket(Frozen):
    """A sized order before any check. placed_at: market time of the draft.

    quantity in shares, or in contracts if `contract` (an OCC symbol on `symbol`) is given; multiplier: shares of one
    contract.

    With `legs` the order trades all of them together: quantity in units, limit_price net per share of one unit; side
    buy pays at most the limit, sell gets at least the limit.

    stop_price: where a trailing stop starts; it follows the price at trail_percent and never falls back.
    """

    order_id: uuid.UUID
    account: str
    symbol: str
    action: Literal["open", "add", "reduce", "close"]
    side: Literal["buy", "sell"]
    quantity: Quantity
    placed_at: dt.datetime
    order_type: OrderType
    limit_price: Price | None = None
    stop_price: Price | None = None
    trail_percent: Quantity | None = None
    time_in_force: TimeInForce = "day"
    contract: str | None = None
    legs: tuple[OrderLeg, ...] = ()
    multiplier: Quantity = 1.0

    @property
    def traded(self) -> str:
        return self.contract or self.symbol

    @property
    def is_option(self) -> bool:
        return self.contract is not None or bool(self.legs)

    @property
    def parts(self) -> tuple[tuple[str, Literal["buy", "sell"], float], ...]:
        if not self.legs:
            return ((self.traded, self.side, self.quantity),)
        return tuple((leg.contract, leg.side, leg.ratio * self.quantity) for leg in self.legs)

    @property
    def whole(self) -> float:
        return sum(quantity for _, _, quantity in self.parts)

    def dearest(self, quote: float) -> float:
        return max(quote, self.limit_price or 0.0, self.stop_price or 0.0)


class HeldPosition(Frozen):
    """One position. quantity in shares, negative when short; average_cost per share. market_price: the last one known
    by then, of priced_at and of a source; None without one, and `missing` has the reason.

    currency: of its prices, where it is not the account's; fx is then the rate into the account's, None where it is not
    known, and cost_base the average cost of a share in the account's currency, at the rates of its purchases.
    """

    symbol: str
    quantity: Amount
    average_cost: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    currency: str | None = None
    cost_base: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    fx: FxRate | None = None
    priced_at: dt.datetime | None = None
    market_price: Price | None = None
    source: str | None = None
    missing: str | None = None


class AccountView(Frozen):
    """An account at one moment. currency: of cash and equity. equity is None when a position could not be priced, or
    its currency has no rate."""

    account: str
    cash: Amount
    equity: Amount | None
    positions: list[HeldPosition]
    currency: str = DOLLAR


class BrokerFill(Frozen):
    """One fill of an order. id: unique within the order and the same in every answer that lists the fill; None
    stands for its place in the answer. symbol and side of an order with legs; else None, they are the order's.

    currency: of the price, None for the account's; rate: how much of the account's currency one unit of it was, None
    where the broker does not say, with the time and the source of it. commission and duties are in the account's.

    kept: of what was bought, so much was taken as the fee: the position grows by the rest, and the commission, which is
    its worth at the price, is no cash.
    """

    id: str | None = None
    symbol: str | None = None
    side: Literal["buy", "sell"] | None = None
    quantity: Quantity
    price: Price
    commission: Amount
    kept: Quantity | None = None
    at: dt.datetime
    currency: str | None = None
    rate: Price | None = None
    rate_at: dt.datetime | None = None
    rate_source: str | None = None
    duties: tuple[Duty, ...] = ()


class BrokerAnswer(Frozen):
    """A broker's state of one order; broker_order_id is its own id, or None when it took nothing.

    fills are all fills of the order so far. `filled`, `cancelled` and `expired` come only once the fills are complete.
    """

    status: Literal["submitted", "partially_filled", "filled", "cancelled", "rejected", "expired"]
    broker_order_id: str | None
    fills: list[BrokerFill]
    message: str | None = None


class BrokerPosition(Frozen):
    """A position as its broker reports it. quantity in shares or contracts, negative when short; average_cost per
    share, in `currency`: None for the account's. cost_base: the same in the account's currency, None where the broker
    does not say."""

    symbol: str
    quantity: Amount
    average_cost: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    currency: str | None = None
    cost_base: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class BrokerOrder(Frozen):
    """An order that the broker still works on. quantity and filled in shares or contracts."""

    client_id: str
    broker_order_id: str
    symbol: str
    side: Literal["buy", "sell"]
    quantity: Amount
    filled: Amount


class AccountFill(Frozen):
    """A fill from the account's own list; client_id is None when the broker does not name the order it belongs to."""

    client_id: str | None
    broker_order_id: str
    symbol: str
    side: Literal["buy", "sell"]
    fill: BrokerFill


SettlementKind = Literal[
    "assigned",
    "exercised",
    "expired",
    "delivered",
    "delisted",
    "dividend",
    "split",
    "fraction",
    "converted",
    "adjusted",
    "fee",
]
PAID_FOR = ("dividend", "fraction")  # cash alone: the position stays


class Settlement(Frozen):
    """One leg of an option event (assignment, exercise, expiry), of a split or a dividend, or the end of a name that is
    traded no more: a change of a position without an order, at a price per share.

    quantity is signed. A contract goes at price 0; the shares that it delivers come or go at its strike. Of a dividend,
    and of a fraction that a split leaves, it is what is paid for, and the position stays. An adjusted
    contract stays and delivers other than 100 shares from then on. A fee is what a venue kept of a
    purchase. ratio: shares after a split for one before. growth: what prices of before are divided by to compare with
    those after this leg. currency: of the price, None for the account's; rate: into the account's currency, of a moment
    and a source.
    """

    id: str
    kind: SettlementKind
    symbol: str
    quantity: Amount
    price: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    ratio: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    growth: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    at: dt.datetime
    currency: str | None = None
    rate: Price | None = None
    rate_at: dt.datetime | None = None
    rate_source: str | None = None


class BrokerState(Frozen):
    """An account as its broker sees it now. fills and settlements reach back to the start of the market's day at least.

    currency: of cash and equity, the one that the account is kept in. blocked: the reason for which the broker takes no
    orders on the account, None when it does.
    """

    account: str
    cash: Amount
    equity: Amount | None
    positions: list[BrokerPosition]
    open_orders: list[BrokerOrder]
    fills: list[AccountFill]
    settlements: list[Settlement] = []
    blocked: str | None = None
    currency: str = DOLLAR


class Reservation(Frozen):
    """Quantity, exposure and cash that an order may still take when it fills.

    traded      the share or the OCC contract; symbol its underlying
    quantity    open quantity, in shares or contracts
    exposure    account currency it may add; cash likewise what it may need
    whole       whether it fills together with the other legs of its order or not at all
    """

    traded: str
    symbol: str
    side: Literal["buy", "sell"]
    quantity: Amount
    exposure: Amount
    cash: Amount
    whole: bool = False


class RiskContext(Frozen):
    """Input of the rules besides the ticket. None means not known, which denies where it matters.

    now             market time; so is every other time here
    providers       every provider that answered in the runs the decision rests on; markets likewise
    verdict_at      market time of the verdict's run, or of the oldest report that it rests on
    listed          whether the market carries the symbol
    idle            how many of the symbol's last sessions had no volume, as far back as is looked; 0 where not known
    quote           last price of what is traded, the share or the contract, of whatever time; while none is known, the
                    average cost of what is held, and unpriced is the reason; of an order with legs their sum
    band            lowest and highest price of the day of the listing, None where there is no such limit
    bought_today    what was bought of the symbol today, where the exchange does not let it be sold before tomorrow
    duties          what the order pays beside commission when it fills, in account currency
    fx              rate of the currency that the ticket is priced in, into the account's; None where it is that one
    net             net price of one unit at the legs' last prices, in the order's direction
    stated_notional the trader's amount in money, None when it gave a quantity
    sectors         by symbol: of the ticket, of positions and of reservations; a contract counts as its underlying
    day_opening     equity that the day's loss is measured from, and day_opening_at when that was, as words; high_water
                    the highest equity so far
    reservations    orders that may still fill, and those of this decision that were cleared before this one
    last_order_at   time of the account's last order on the symbol; last_order what it traded
    earnings        day of the company's next earnings; across_earnings whether a person gave leave to write a put whose
                    life spans it
    recent_orders   orders sent in the last minute of real time; orders_today those of the exchange's day
    rejections      number of today's last orders in a row that the broker refused, since trading was last resumed
    open_order      id of another open order on the same side of what is traded
    unresolved      id of an order on the symbol whose outcome is not known
    facts           by code of a denial, what the rule of a feature goes by; an error where that could not be collected
    """

    now: dt.datetime
    trading: TradingState
    trading_why: str = ""
    market_open: bool | None
    next_open: dt.datetime | None
    providers: tuple[str, ...]
    markets: tuple[str, ...]
    broker: str
    rating: Rating | None
    verdict_at: dt.datetime | None
    instrument: Instrument | None
    listed: bool | None
    idle: int = 0
    quote: Quote
    unpriced: str | None = None
    fx: FxRate | None = None
    duties: Amount = 0.0
    band: DayBand | None = None
    bought_today: Amount = 0.0
    net: Amount | None = None
    stated_notional: Amount | None = None
    sectors: Mapping[str, str | None] = {}
    account: AccountView
    day_opening: Amount | None
    day_opening_at: str = ""
    high_water: Amount | None
    reservations: tuple[Reservation, ...] = ()
    last_order_at: dt.datetime | None = None
    last_order: str = ""
    earnings: dt.date | None = None
    across_earnings: bool = False
    recent_orders: int
    orders_today: int
    rejections: int
    open_order: str | None = None
    unresolved: str | None = None
    facts: Mapping[str, Any] = {}


ANY_SYMBOL = "*"
# Signed with the text, so that the key's signature of something else does not sign a mandate.
PURPOSE = b"chordesk mandate 1\n"


class MandateTerms(Frozen):
    """Limits of one mandate. max_notional: account currency, over all orders sent under the mandate; max_orders
    likewise. Times are real time. symbols: underlyings, or * alone for all. caution: whether it sends what rests on a
    verdict of CAUTION."""

    version: Annotated[int, Field(ge=1)]
    broker: str
    max_notional: Annotated[Decimal, Field(gt=0, allow_inf_nan=False)]
    max_orders: Annotated[int, Field(ge=1)]
    symbols: Annotated[tuple[str, ...], Field(min_length=1)]
    armed_at: AwareDatetime
    expires_at: AwareDatetime
    armed_by: str
    caution: bool = False

    def document(self) -> str:
        """Return canonical JSON: sorted keys, no spaces, amounts as decimal text, times in UTC."""
        fields = self.model_dump(mode="json")
        for name in ("armed_at", "expires_at"):
            fields[name] = getattr(self, name).astimezone(dt.UTC).isoformat()
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def allows(self, symbol: str) -> bool:
        return self.symbols == (ANY_SYMBOL,) or symbol in self.symbols


def signed_bytes(document: str) -> bytes:
    return PURPOSE + document.encode()
