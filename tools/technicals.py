"""technicals_get: TA-Lib's indicators in more detail than signals_get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chordesk.models.market import SymbolTechnicals
from chordesk.tools.decimals import rounded
from chordesk.tools.figures import SESSIONS_A_YEAR, load_talib, rsi
from chordesk.tools.history import histories, note_holes, note_lost
from chordesk.tools.market.protocol import Floats
from chordesk.tools.market.sessions import History
from chordesk.tools.registry import Gaps, ToolContext, ToolSpec, payload
from chordesk.tools.signals import SignalsArguments

# Long enough for the recursive indicators (EMA, RSI, ATR, ADX) to have forgotten where they began.
_SESSIONS = 400
_LONGEST = 200  # sessions of the figure that looks back furthest, but the extremes of a year


def symbol_technicals(history: History) -> SymbolTechnicals:
    """Return indicators at the last bar, with TA-Lib's definitions and usual periods; prices per share.

    MACD 12, 26, 9; Bollinger bands of 20 closes and 2 standard deviations; Wilder's RSI, ATR and ADX of 14.
    high252 and low252 are the extremes of exactly 252 sessions. All are of sessions without one missing among them.
    """
    bars = history.run
    lib, close = load_talib(), bars.close
    high, low = bars.high, bars.low
    macd, macd_signal, _ = lib.MACD(close)
    upper, _, lower = lib.BBANDS(close, timeperiod=20)
    year = len(close) >= SESSIONS_A_YEAR
    return SymbolTechnicals(
        symbol=bars.symbol,
        date=bars.dates[-1],
        close=round(float(close[-1]), 4),
        sma20=_last(lib.SMA(close, 20)),
        sma50=_last(lib.SMA(close, 50)),
        sma200=_last(lib.SMA(close, 200)),
        ema12=_last(lib.EMA(close, 12)),
        ema26=_last(lib.EMA(close, 26)),
        macd=_last(macd),
        macd_signal=_last(macd_signal),
        rsi14=rounded(rsi(close), 3),
        atr14=_last(lib.ATR(high, low, close, 14)),
        bollinger_upper=_last(upper),
        bollinger_lower=_last(lower),
        adx14=_last(lib.ADX(high, low, close, 14)),
        high252=rounded(float(np.max(high[-SESSIONS_A_YEAR:]))) if year else None,
        low252=rounded(float(np.min(low[-SESSIONS_A_YEAR:]))) if year else None,
    )


def _last(values: Floats) -> float | None:
    value = float(values[-1])
    return round(value, 3) if math.isfinite(value) else None


def technical_rows(context: ToolContext, symbols: Sequence[str], gaps: Gaps) -> list[dict[str, Any]]:
    """Return the indicators of each symbol that has the market's latest session, as an answer has them."""
    found = list(histories(context, symbols, gaps, _SESSIONS))
    note_holes(found, gaps, _LONGEST)
    note_lost(context, gaps, SESSIONS_A_YEAR)
    rows = [symbol_technicals(history).model_dump(mode="json", by_alias=True) for history in found]
    short = sum(len(history.run.close) < SESSIONS_A_YEAR for history in found)
    if short:
        reason = f"{short} of {len(rows)} symbols have fewer than {SESSIONS_A_YEAR} sessions of history"
        gaps.add("high252, low252", reason)
    return rows


def technicals_get(context: ToolContext, arguments: SignalsArguments) -> dict[str, Any]:
    gaps = Gaps()
    rows = technical_rows(context, arguments.symbols, gaps)
    return payload(context, gaps, available=bool(rows), technicals=rows)


TECHNICALS_GET = ToolSpec(
    name="technicals_get",
    description=(
        "Indicators of up to 150 symbols at the last daily bar, in price units: sma20, sma50, sma200, ema12, ema26, "
        "macd, macdSignal, atr14, Bollinger bands (20, 2), high252, low252; rsi14 and adx14 are 0 to 100; null is "
        "unknown."
    ),
    hint="indicators in detail (moving averages, MACD, Bollinger bands, ATR, ADX); `symbols`.",
    arguments=SignalsArguments,
    function=technicals_get,
)
