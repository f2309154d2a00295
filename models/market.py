"""Market nouns: instruments, bars, quotes, headlines, and the payloads that tools hand to a role.

Prices are in the listing's currency per share, volumes in shares, returns and volatilities as fractions
(0.05 is five per cent), times timezone-aware.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from chordesk.models.answers import Frozen, Wire

Price = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def plain_name(market: str) -> str:
    return market.partition("-")[0]


class Listing(Frozen):
    """One member of a universe; the other fields are None where the source does not say. company: what two listings of
    one company have alike, such as its CIK; aliases: further names of it, its people and products, by semicolon."""

    symbol: str
    name: str | None = None
    sector: str | None = None
    industry: str | None = None
    company: str | None = None
    aliases: str | None = None


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
    """Indicators of one symbol in more detail; None where the history is too short or lacks a session."""

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
