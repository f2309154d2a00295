"""The figures rules are made of, as pure functions of arrays in ascending order of session.

Each gives None where the history is too short or the figure is undefined; fractions are unrounded.
"""

from __future__ import annotations

import math

import numpy as np

from tools.market.protocol import Floats

SESSIONS_A_YEAR = 252


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def momentum(close: Floats, sessions: int) -> float | None:
    """close / close n sessions ago - 1 (rate of change; Murphy, Technical Analysis of the Financial Markets)."""
    if len(close) <= sessions:
        return None
    return _finite(close[-1] / close[-1 - sessions] - 1)


def rsi(close: Floats, periods: int = 14) -> float | None:
    """Wilder's relative strength index, 0 to 100 (New Concepts in Technical Trading Systems, 1978, section VI).

    100 * gain / (gain + loss), where gain and loss begin as plain means of the first n changes and go on as
    mean + (change - mean) / n. The recursion is unrolled to one weighted sum. A series that never moved has 0, as in
    TA-Lib.
    """
    changes = np.diff(close)
    if len(changes) < periods:
        return None
    later = len(changes) - periods
    decay = 1 - 1 / periods
    weights = np.full(len(changes), decay**later / periods)
    weights[periods:] = decay ** np.arange(later - 1, -1, -1) / periods
    gain = float(weights @ np.maximum(changes, 0))
    loss = float(weights @ np.maximum(-changes, 0))
    return 100 * gain / (gain + loss) if gain + loss > 0 else 0.0


def from_high(close: Floats, high: Floats, sessions: int = SESSIONS_A_YEAR) -> float | None:
    """close / highest high of the last n sessions (of all, if fewer) - 1; at most 0."""
    if not len(close):
        return None
    return _finite(close[-1] / high[-sessions:].max() - 1)


def volatility(close: Floats, sessions: int = 20) -> float | None:
    """Realised volatility: sample standard deviation of n daily log returns, times sqrt(252).

    Hull, Options, Futures, and Other Derivatives, section 'Estimating volatility from historical data'.
    """
    if len(close) <= sessions:
        return None
    returns = np.diff(np.log(close[-sessions - 1 :]))
    return _finite(returns.std(ddof=1) * math.sqrt(SESSIONS_A_YEAR))


def drawdown(close: Floats, sessions: int = 60) -> float | None:
    """Deepest fall from a running high of closes within the last n sessions; at most 0.

    Magdon-Ismail and Atiya, Maximum Drawdown, Risk Magazine, 2004.
    """
    if len(close) < sessions:
        return None
    window = close[-sessions:]
    return _finite((window / np.maximum.accumulate(window)).min() - 1)


def volume_ratio(volume: Floats, sessions: int = 20) -> float | None:
    """Last volume / mean of the n sessions before it."""
    if len(volume) <= sessions:
        return None
    usual = volume[-sessions - 1 : -1].mean()
    return _finite(volume[-1] / usual) if usual > 0 else None


def gap(opened: Floats, close: Floats) -> float | None:
    """Last open / previous close - 1."""
    return _finite(opened[-1] / close[-2] - 1) if len(close) > 1 else None


def from_average(close: Floats, sessions: int) -> float | None:
    """close / simple moving average of the last n closes - 1."""
    if len(close) < sessions:
        return None
    return _finite(close[-1] / close[-sessions:].mean() - 1)
