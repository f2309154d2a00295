"""The trend of a close: its direction and quality, and how far it has run from support."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from chordesk.tools.figures import load_talib
from chordesk.tools.market.protocol import Bars, Floats

PERIODS = 14
ATR_BARS, ADX_BARS = PERIODS + 1, 2 * PERIODS  # bars without which TA-Lib has no figure
# Thresholds of our own, but for 25, which is Wilder's.
_STRONG, _MODERATE = (25.0, 0.7), (20.0, 0.4)
_FLAT = 0.2
_HIGH, _RAISED = 4.0, 2.0

Quality = Literal["strong", "moderate", "weak"]


class Trend(NamedTuple):
    """Trend of the last `bars` closes. r2: share of their log's variance that a straight line explains; slope_year:
    that line's growth in a year as a fraction; score: slope_year times r2."""

    direction: Literal["up", "down", "sideways"]
    quality: Quality | None
    r2: float
    slope_year: float
    score: float
    bars: int


class Extension(NamedTuple):
    """Distance of the close from the nearest support in average true ranges."""

    atr: float
    risk: Literal["low", "moderate", "high"]


def average_true_range(bars: Bars) -> float | None:
    """Return the average true range of 14 bars (Wilder, New Concepts in Technical Trading Systems, 1978, section III);
    None where there are fewer than 15 bars."""
    return _last(load_talib().ATR(bars.high, bars.low, bars.close, PERIODS)) if len(bars.dates) >= ATR_BARS else None


def directional_index(bars: Bars) -> float | None:
    """Return the average directional index of 14 bars, 0 to 100 (Wilder 1978, section IV); None where there are fewer
    than 28 bars, or the price never moved."""
    if len(bars.dates) < ADX_BARS or not np.ptp(np.r_[bars.high, bars.low]):
        return None
    return _last(load_talib().ADX(bars.high, bars.low, bars.close, PERIODS))


def trend(close: Floats, adx: float | None, bars: int, bars_a_year: int) -> Trend | None:
    """Return the trend of the last `bars` closes; None where there are fewer, or the price never moved.

    A line is fitted to log closes; score is its yearly growth times R2 (Clenow, Stocks on the Move, 2015, chapter 7).
    direction: the slope's sign, sideways where R2 is under 0.2. quality: strong with an ADX of 25 and R2 of 0.7,
    moderate with an ADX of 20 or R2 of 0.4; None where there is no ADX.
    """
    if len(close) < bars:
        return None
    values = np.log(close[-bars:])
    offsets, times = values - values.mean(), np.arange(bars) - (bars - 1) / 2
    spread, total = float(times @ times), float(offsets @ offsets)
    if total <= bars * np.finfo(float).eps ** 2 or not np.ptp(close[-bars:]):
        return None
    slope = float(times @ offsets) / spread
    r2 = min(slope * slope * spread / total, 1.0)
    growth = math.exp(min(slope * bars_a_year, 50.0)) - 1
    direction: Literal["up", "down", "sideways"] = "sideways" if r2 < _FLAT else "up" if slope > 0 else "down"
    return Trend(direction, _quality(adx, r2), r2, growth, growth * r2, bars)


def extension(close: float, support: float, atr: float) -> Extension | None:
    """Return how far the close is above a support: more than 4 average true ranges is a high risk, from 2 on moderate.
    None where the range is zero."""
    if not atr > 0:
        return None
    distance = (close - support) / atr
    return Extension(distance, "high" if distance > _HIGH else "moderate" if distance >= _RAISED else "low")


def _quality(adx: float | None, r2: float) -> Quality | None:
    if adx is None:
        return None
    if adx >= _STRONG[0] and r2 >= _STRONG[1]:
        return "strong"
    return "moderate" if adx >= _MODERATE[0] or r2 >= _MODERATE[1] else "weak"


def _last(values: Floats) -> float | None:
    value = float(values[-1])
    return value if math.isfinite(value) else None
