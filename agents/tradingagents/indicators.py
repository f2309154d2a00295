"""The technical indicators that TradingAgents names, as series over daily bars, with TA-Lib's definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chordesk.tools.figures import load_talib
from chordesk.tools.market.protocol import Bars, Floats

_PERIOD = 20  # of the volume-weighted average


def _macd(at: int) -> Callable[[Any, Bars], Floats]:
    return lambda lib, bars: lib.MACD(bars.close)[at]


def _band(at: int) -> Callable[[Any, Bars], Floats]:
    return lambda lib, bars: lib.BBANDS(bars.close, timeperiod=20)[at]


def _weighted(_lib: Any, bars: Bars) -> Floats:
    """Return the mean of the closes of 20 sessions, weighted by volume."""
    found = np.full(len(bars.close), np.nan)
    if len(bars.close) >= _PERIOD:
        sums = [np.convolve(values, np.ones(_PERIOD), "valid") for values in (bars.close * bars.volume, bars.volume)]
        with np.errstate(divide="ignore", invalid="ignore"):
            found[_PERIOD - 1 :] = sums[0] / sums[1]
    return found


def _ranges(bars: Bars) -> tuple[Floats, Floats, Floats]:
    return bars.high, bars.low, bars.close


# By TradingAgents' name: what it is, and its series.
INDICATORS: Mapping[str, tuple[str, Callable[[Any, Bars], Floats]]] = {
    "close_50_sma": ("mean of 50 closes", lambda lib, bars: lib.SMA(bars.close, 50)),
    "close_200_sma": ("mean of 200 closes", lambda lib, bars: lib.SMA(bars.close, 200)),
    "close_10_ema": ("exponential mean of closes, 10 sessions", lambda lib, bars: lib.EMA(bars.close, 10)),
    "macd": ("MACD 12, 26", _macd(0)),
    "macds": ("signal line of MACD 12, 26, 9", _macd(1)),
    "macdh": ("histogram of MACD 12, 26, 9", _macd(2)),
    "rsi": ("Wilder's RSI of 14, 0 to 100", lambda lib, bars: lib.RSI(bars.close, 14)),
    "boll": ("middle Bollinger band, 20 closes", _band(1)),
    "boll_ub": ("upper Bollinger band, 20 closes and 2 deviations", _band(0)),
    "boll_lb": ("lower Bollinger band, 20 closes and 2 deviations", _band(2)),
    "atr": ("Wilder's ATR of 14", lambda lib, bars: lib.ATR(*_ranges(bars), 14)),
    "vwma": ("mean of 20 closes weighted by volume", _weighted),
    "mfi": ("money flow index of 14, 0 to 100", lambda lib, bars: lib.MFI(*_ranges(bars), bars.volume, 14)),
}  # fmt: skip


def series(name: str, bars: Bars) -> Floats:
    """Return the values of an indicator, one for each bar; not a number where it is not known."""
    found: Floats = INDICATORS[name][1](load_talib(), bars)
    return found
