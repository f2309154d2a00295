"""Order nouns: ticket, risk answers, preview, broker answers."""

from __future__ import annotations

import datetime as dt
import uuid
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from models.market import Price
from models.research import Frozen, Instrument, Rating
from models.states import OrderState

Amount = Annotated[float, Field(allow_inf_nan=False)]
Quantity = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class DenialCode(StrEnum):
    """Why an action became no order. Every code has a test that triggers it and one just inside the limit."""

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
    PRICE_MOVED = "price_moved"


class Cleared(Frozen):
    cleared: Literal[True] = True


class Denied(Frozen):
    """A refusal is data: the figure measured and the limit it broke, as text with units."""

    cleared: Literal[False] = False
    code: DenialCode
    reason: str
    measured: str
    limit: str


class OrderTicket(Frozen):
    """A sized order before any check. Quantity in shares; placed_at is the market time it was drafted at."""

    order_id: uuid.UUID
    account: str
    symbol: str
    action: Literal["open", "add", "reduce", "close"]
    side: Literal["buy", "sell"]
    quantity: Quantity
    placed_at: dt.datetime
    order_type: Literal["market", "limit"]
    limit_price: Price | None = None
    time_in_force: Literal["day"] = "day"


class HeldPosition(Frozen):
    """quantity in shares, negative when short; average_cost per share."""

    symbol: str
    quantity: Amount
    average_cost: Price
    priced_at: dt.datetime | None = None
    market_price: Price | None = None


class AccountView(Frozen):
    """An account at one moment. equity is None when a position could not be priced."""

    account: str
    cash: Amount
    equity: Amount | None
    positions: list[HeldPosition]


class BrokerFill(Frozen):
    quantity: Quantity
    price: Price
    commission: Amount
    at: dt.datetime


class BrokerAnswer(Frozen):
    """What a broker said to a submission; broker_order_id is its own id, or None when it took nothing."""

    status: Literal["submitted", "partially_filled", "filled", "cancelled", "rejected", "expired"]
    broker_order_id: str | None
    fills: list[BrokerFill]
    message: str | None = None


class RiskLimits(Frozen):
    """What the desk allows itself. Money in account currency; slippage and commission are what a fill may add."""

    allow_short: bool
    options_allowed: bool
    shares_allowed: bool
    max_order_notional: Amount
    max_symbol_share: Amount
    cooldown_hours: Amount
    slippage_bps: Amount
    commission_per_share: Amount


class RiskContext(Frozen):
    """All that the rules look at besides the ticket. None means not known, which denies where it matters.

    price           per share, the higher of the last quote and the ticket's limit price
    providers       every provider that spoke in the runs the decision rests on; markets likewise
    pledged_cash    what orders not filled yet need: previewed ones of this decision, submitted ones of the account
    pledged_buys    shares of the ticket's symbol in those orders; pledged_sells likewise
    last_order_at   market time of the account's last order on the symbol
    """

    now: dt.datetime
    market_open: bool | None
    next_open: dt.datetime | None
    providers: tuple[str, ...]
    markets: tuple[str, ...]
    broker: str
    rating: Rating | None
    instrument: Instrument | None
    price: Price
    account: AccountView
    pledged_cash: Amount = 0.0
    pledged_buys: Amount = 0.0
    pledged_sells: Amount = 0.0
    last_order_at: dt.datetime | None = None


class OrderOutcome(Frozen):
    """What became of one action. gate says why a previewed order went no further, None when nothing held it."""

    order_id: uuid.UUID
    ordinal: int
    symbol: str
    action: str
    side: str | None
    quantity: float | None
    order_type: str | None
    limit_price: float | None
    state: OrderState
    denied: Denied | None = None
    price: float | None = None
    notional: float | None = None
    payload_hash: str | None = None
    gate: str | None = None
    message: str | None = None
    fills: list[BrokerFill] = []
