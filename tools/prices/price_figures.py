"""Price figures for rules, as pure functions of arrays in ascending order of session.

Each returns None where the history is too short or the figure is undefined; fractions are unrounded.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from chordesk.tools.decimals import finite
from chordesk.tools.market.clock import import_arrowless
from chordesk.tools.market.protocol import Floats

SESSIONS_A_YEAR = 252


@cache
def load_talib() -> Any:
    """Return the module talib, imported at first use: it imports pandas, which takes a second."""
    return import_arrowless("talib")


def momentum(close: Floats, sessions: int) -> float | None:
    return finite(close[-1] / close[-1 - sessions] - 1) if len(close) > sessions else None


def rsi(close: Floats, periods: int = 14) -> float | None:
    """Return TA-Lib's relative strength index of the last close, 0 to 100; 0 for a series that never moved. 100 * gain
    / (gain + loss), where gain and loss begin as plain means of the first n changes and go on as mean + (change - mean)
    / n (Wilder, New Concepts in Technical Trading Systems, 1978, section VI)."""
    return finite(load_talib().RSI(close, periods)[-1]) if len(close) > periods else None


def from_high(close: Floats, high: Floats, sessions: int = SESSIONS_A_YEAR) -> float | None:
    """Return close / highest high of the last n sessions (of all, if fewer: the caller says of how many) - 1; at most
    0."""
    return finite(close[-1] / high[-sessions:].max() - 1) if len(close) else None


def volatility(close: Floats, sessions: int = 20, a_year: int = SESSIONS_A_YEAR) -> float | None:
    """Return realised volatility: the sample standard deviation of n daily log returns, times the square root of the
    sessions of a year, 252 or of pairs 365. Hull, Options, Futures, and Other Derivatives, section 'Estimating
    volatility from historical data': the variance of a year is the sum of those of its trading days."""
    if len(close) <= sessions:
        return None
    returns = np.diff(np.log(close[-sessions - 1 :]))
    return finite(returns.std(ddof=1) * math.sqrt(a_year))


def volatility_rank(close: Floats, sessions: int = 20, past: int = SESSIONS_A_YEAR) -> tuple[float | None, int]:
    """Return (place between the lowest, 0, and the highest, 1, of the last `past` sessions, of how many); None if all
    are equal."""
    returns = np.diff(np.log(close))
    if len(returns) < sessions:
        return None, 0
    windows = np.lib.stride_tricks.sliding_window_view(returns, sessions)[-past:].std(axis=1, ddof=1)
    known = windows[np.isfinite(windows)]
    if not len(known) or not math.isfinite(windows[-1]) or known.max() <= known.min():
        return None, len(known)
    return finite((windows[-1] - known.min()) / (known.max() - known.min())), len(known)


def drawdown(close: Floats, sessions: int = 60) -> float | None:
    """Return the deepest fall from a running high of closes within the last n sessions; at most 0. Magdon-Ismail and
    Atiya, Maximum Drawdown, Risk Magazine, 2004."""
    if len(close) < sessions:
        return None
    window = close[-sessions:]
    return finite((window / np.maximum.accumulate(window)).min() - 1)


def volume_ratio(volume: Floats, sessions: int = 20) -> float | None:
    if len(volume) <= sessions:
        return None
    usual = volume[-sessions - 1 : -1].mean()
    return finite(volume[-1] / usual) if usual > 0 else None


def gap(opened: Floats, close: Floats) -> float | None:
    return finite(opened[-1] / close[-2] - 1) if len(close) > 1 else None


def from_average(close: Floats, sessions: int) -> float | None:
    return finite(close[-1] / close[-sessions:].mean() - 1) if len(close) >= sessions else None
