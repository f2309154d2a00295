"""Realised volatility from whole bars; tools/figures.py has the one from closes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

SESSIONS_A_YEAR = 252
Floats = npt.NDArray[np.float64]


def yang_zhang(opened: Floats, high: Floats, low: Floats, close: Floats, sessions: int = 20) -> float | None:
    """Return the annualised volatility of n sessions from their opens, ranges and closes; None where bars are missing.

    Yang and Zhang, Drift-Independent Volatility Estimation, Journal of Business, 2000: the variance of the overnight
    returns, plus k times that of open to close, plus 1 - k times the mean of Rogers and Satchell's, with
    k = 0.34 / (1.34 + (n + 1) / (n - 1)).
    """
    if len(close) <= sessions or sessions < 2:
        return None
    first = slice(-sessions - 1, -1)
    last = slice(-sessions, None)
    overnight = np.log(opened[last] / close[first])
    day = np.log(close[last] / opened[last])
    up, down = np.log(high[last] / opened[last]), np.log(low[last] / opened[last])
    within = up * (up - day) + down * (down - day)
    weight = 0.34 / (1.34 + (sessions + 1) / (sessions - 1))
    variance = overnight.var(ddof=1) + weight * day.var(ddof=1) + (1 - weight) * within.mean()
    return float(math.sqrt(variance * SESSIONS_A_YEAR)) if math.isfinite(variance) and variance >= 0 else None
