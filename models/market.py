"""Market nouns: instruments, option contracts, bars, quotes, headlines, and the payloads that tools hand to a role.

Prices are in the listing's currency per share, volumes in shares, returns and volatilities as fractions
(0.05 is five per cent), times timezone-aware.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from chordesk.models.answers import Frozen, Wire
from chordesk.models.errors import MarketError
from chordesk.models.exchanges import CRYPTO, HOME, currency_of, exchange_code, exchange_of, pair_of, suffix_of

SHARES_PER_CONTRACT = 100.0
MODELLED = "modelled"  # the source of every figure that rests on a model in place of a market
_OCC = re.compile(r"(?P<root>[A-Z]{1,6}) *(?P<day>\d{6})(?P<kind>[CP])(?P<strike>\d{8})")


class OptionContract(Frozen):
    """One listed contract. strike in the underlying's currency per share; it ends after the close of `expiry`."""

    symbol: str
    underlying: str
    expiry: dt.date
    kind: Literal["call", "put"]
    strike: Decimal


class Greeks(NamedTuple):
    """delta and gamma for one currency unit of the share, theta for a calendar day, vega and rho for one point of
    volatility and of the rate (0.01)."""

    delta: float
    gamma: float
    theta: float
    vega: float
    rho: float


class ChainRow(NamedTuple):
    """One contract as its source states it; None where it says nothing. A bid of zero is a bid of zero.

    iv, greeks: the source's own, not those worked out from its quotes.
    """

    contract: OptionContract
    bid: float | None = None
    ask: float | None = None
    last: float | None = None
    volume: float | None = None
    open_interest: float | None = None
    iv: float | None = None
    greeks: Greeks | None = None


class OptionChain(NamedTuple):
    """The contracts on one symbol that a source lists."""

    symbol: str
    at: dt.datetime
    source: str
    spot: float  # the share's price with the quotes
    rows: tuple[ChainRow, ...]
    unread: tuple[str, ...] = ()  # names that are no OCC symbols on it, such as adjusted contracts
    dividend_yield: float | None = None  # a year, as a fraction
    interest_day: dt.date | None = None  # the earliest day of its open interest, where stated
    lacks: tuple[tuple[str, str], ...] = ()  # (missing part, reason)


def parse_contract(symbol: str) -> OptionContract | None:
    found = _OCC.fullmatch(symbol)
    if found is None:
        return None
    try:
        expiry = dt.datetime.strptime(found["day"], "%y%m%d").date()
    except ValueError:
        return None
    strike = Decimal(found["strike"]) / 1000
    if not strike:
        return None
    kind: Literal["call", "put"] = "call" if found["kind"] == "C" else "put"
    plain = f"{found['root']}{found['day']}{found['kind']}{found['strike']}"
    return OptionContract(symbol=plain, underlying=found["root"], expiry=expiry, kind=kind, strike=strike)


def contract_of(root: str, expiry: dt.date, kind: Literal["call", "put"], strike: Decimal) -> OptionContract:
    """Return the contract with these terms; root: one to six letters, strike in whole thousandths."""
    thousandths = int(strike * 1000)
    symbol = f"{root}{expiry:%y%m%d}{kind[0].upper()}{thousandths:08d}"
    return OptionContract(symbol=symbol, underlying=root, expiry=expiry, kind=kind, strike=strike)


def root_of(symbol: str) -> str:
    """Return by which name contracts are on a share: that of BRK.B is BRKB. A listing of another place and a pair have
    no such contracts and keep their whole name, so that VOD.L is not taken for a share VODL."""
    if suffix_of(symbol) or pair_of(symbol):
        return symbol
    return symbol.replace(".", "").replace("-", "")


def multiplier_of(symbol: str) -> float:
    return SHARES_PER_CONTRACT if parse_contract(symbol) else 1.0


LEGS_AT_LEAST, LEGS_AT_MOST = 2, 4
LEG_FORM = "buy or sell, how many for one unit, OCC symbol, such as: sell 1 AAPL261218P00180000"
_TEXT = re.compile(
    r"(?P<side>buy|sell) +(?:(?P<ratio>[1-9]\d?) +)?(?P<contract>[A-Z]{1,6} *\d{6}[CP]\d{8})", re.IGNORECASE
)


class OrderLeg(Frozen):
    """One leg. ratio: contracts of it for one unit of the order."""

    contract: str
    side: Literal["buy", "sell"]
    ratio: int = Field(1, ge=1)

    @property
    def signed(self) -> int:
        return self.ratio if self.side == "buy" else -self.ratio

    def __str__(self) -> str:
        return f"{self.side} {self.ratio} {self.contract}"


def parse_leg(text: str) -> OrderLeg | None:
    found = _TEXT.fullmatch(text.strip())
    contract = parse_contract(found["contract"].upper()) if found else None
    if found is None or contract is None:
        return None
    return OrderLeg.model_validate(
        {"contract": contract.symbol, "side": found["side"].lower(), "ratio": int(found["ratio"] or 1)}
    )


def legs_of(rows: Iterable[Mapping[str, Any]] | None) -> tuple[OrderLeg, ...]:
    return tuple(OrderLeg.model_validate(row) for row in rows or ())


def wrong_legs(symbol: str, legs: Sequence[OrderLeg]) -> str | None:
    if not LEGS_AT_LEAST <= len(legs) <= LEGS_AT_MOST:
        return f"{len(legs)} legs, and an order has {LEGS_AT_LEAST} to {LEGS_AT_MOST}"
    names = [leg.contract for leg in legs]
    if len(set(names)) < len(names):
        return "two legs trade the same contract"
    strange = [name for name in names if (found := parse_contract(name)) is None or found.underlying != symbol]
    if strange:
        return f"{strange[0]} is no contract on {symbol}"
    common = math.gcd(*(leg.ratio for leg in legs))
    return None if common == 1 else f"the ratios have the common divisor {common}: order more units instead"


Price = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Step = Annotated[Decimal, Field(gt=0, allow_inf_nan=False)]


def plain_name(market: str) -> str:
    return market.partition("-")[0]


class Listing(Frozen):
    """One member of a universe; a text is None where the source does not say. company: what two listings of one company
    have alike, such as its CIK; aliases: further names of it, its people and products, by semicolon.

    The exchange is the one that the symbol names; a source may state another currency, step or lot than the exchange's.
    What is as in New York is left out of every dump.
    """

    symbol: str
    name: str | None = None
    sector: str | None = None
    industry: str | None = None
    company: str | None = None
    aliases: str | None = None
    exchange: str = HOME  # code of a row of `EXCHANGES`
    currency: str = "USD"  # of its prices: the major one, pounds and not pence
    kind: Literal["share", "etf", "crypto"] = "share"
    price_step: Step | None = None  # None: by the table of its exchange
    quantity_step: Step = Decimal(1)
    lot: Step | None = Decimal(1)  # what a buy is a multiple of; None where no source states it
    least_amount: Step | None = None  # the least quantity of an order that opens or adds

    @model_validator(mode="before")
    @classmethod
    def _of_its_exchange(cls, given: Any) -> Any:
        """Fill what the form of the symbol says and the source does not."""
        if not isinstance(given, Mapping) or not isinstance(given.get("symbol"), str):
            return given
        return {**_by_form(given["symbol"]), **given}

    @model_validator(mode="after")
    def _on_its_exchange(self) -> Self:
        if self.exchange != exchange_code(self.symbol):
            raise ValueError(f"{self.symbol} is of {exchange_code(self.symbol)} by its form, not of {self.exchange}")
        return self

    @model_serializer(mode="wrap")
    def _told(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        return {
            name: value
            for name, value in dump(self).items()
            if name not in _TRADED_BY or getattr(self, name) != fields[name].default
        }


_TRADED_BY = ("exchange", "currency", "kind", "price_step", "quantity_step", "lot", "least_amount")


def _by_form(symbol: str) -> dict[str, Any]:
    """Return how a symbol is traded where that is not as in New York; nothing of one whose exchange is not known."""
    try:
        exchange = exchange_of(symbol)
    except MarketError:
        return {}
    if exchange.code == HOME:
        return {}
    return {
        "exchange": exchange.code,
        "currency": currency_of(symbol),
        "kind": "crypto" if exchange.code == CRYPTO else "share",
        "lot": exchange.lot,
    }


class Quote(Frozen):
    """The last price known at `at`."""

    symbol: str
    price: Price
    at: dt.datetime
    source: str
    # low, high: range of the session that a fill price is of, None where it is not known; a fill lies within it
    low: Price | None = None
    high: Price | None = None
    # bid, ask: of a contract, where there are any
    bid: Price | None = None
    ask: Price | None = None


class Headline(Wire):
    symbol: str
    headline: str
    source: str
    published_at: dt.datetime
    url: str | None = None


class Missing(Wire):
    """Datum that is missing, and the reason. symbol: None when it is missing for all."""

    symbol: str | None = None
    what: str
    reason: str


class SymbolSignals(Wire):
    """The figures rules are made of, one symbol; None where the history is too short or lacks a session.

    momentum20, momentum60   close / close n sessions ago - 1
    rsi14                    Wilder's relative strength index, 0 to 100
    from_high                close / highest high of the last `high_sessions` sessions, at most 252, - 1
    volatility20             annualised standard deviation of daily log returns over 20 sessions (x sqrt 252)
    drawdown60               deepest fall from a running high of closes in the last 60 sessions, <= 0
    volume_ratio             last volume / mean of the 20 sessions before
    gap                      last open / previous close - 1
    change                   last close / previous close - 1
    sma20, sma50             close / simple moving average of n closes - 1
    """

    symbol: str
    date: dt.date
    close: Price
    sessions: int
    momentum20: float | None
    momentum60: float | None
    rsi14: float | None
    from_high: float | None
    high_sessions: int
    volatility20: float | None
    drawdown60: float | None
    volume_ratio: float | None
    gap: float | None
    change: float | None
    sma20: float | None
    sma50: float | None


class SymbolTechnicals(Wire):
    """Indicators of one symbol in more detail; None where the history is too short or lacks a session.

    traded20: money that changes hands on a median day of the last 20. round_trip: what buying and selling a share costs
    as a fraction of its price, by the settings of fills.
    """

    symbol: str
    date: dt.date
    close: Price
    sma20: float | None
    sma50: float | None
    sma200: float | None
    ema12: float | None
    ema26: float | None
    macd: float | None
    macd_signal: float | None
    rsi14: float | None
    atr14: float | None
    bollinger_upper: float | None
    bollinger_lower: float | None
    adx14: float | None
    high252: float | None
    low252: float | None
    traded20: int | None
    round_trip: float


class Mover(Wire):
    """One of the day's largest moves; fields as in SymbolSignals.

    change_sessions: sessions of the exchange that the change spans, more than 1 without a bar of the session before.
    """

    symbol: str
    close: Price
    change: float
    change_sessions: int
    gap: float | None
    volume_ratio: float | None


class Regime(Wire):
    """The state of a market at the close of `date`, of the closes of the desk's universe; None where sessions or names
    are too few. Fractions.

    benchmark: what its figures are of; trend: up where it rose over 20 sessions and stands above its mean of 50, down
    where both are the other way round. volatility_percentile, dispersion_percentile: share of the values of the last
    year, at most 252, that are at most that of now; volatility_sessions: of how many. above_average50, near_high60,
    rose20: shares of the names; near: within 5 % of the highest close. dispersion20: standard deviation of the names'
    returns over 20 sessions.
    """

    date: dt.date
    benchmark: str
    trend: Literal["up", "down", "mixed"] | None
    change20: float | None
    change60: float | None
    from_average50: float | None
    volatility20: float | None
    volatility_percentile: float | None
    volatility_sessions: int
    above_average50: float | None
    near_high60: float | None
    rose20: float | None
    dispersion20: float | None
    dispersion_percentile: float | None
