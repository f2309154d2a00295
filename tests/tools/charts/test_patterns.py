"""Candlestick patterns: TA-Lib's, of the last bars alone."""

from __future__ import annotations

import numpy as np
import pytest

from chordesk.tools.charts.study import RECENT, Pattern, patterns
from chordesk.tools.market.prices import DailyBars
from tests.tools.charts.samples import bars_of


def falling(*last: tuple[float, float, float, float]) -> DailyBars:
    """A steady fall of small candles from 100, then the given (open, high, low, close)."""
    close = 100 - 0.5 * np.arange(60)
    rows = [(value + 0.4, value + 0.6, value - 0.2, value) for value in close.tolist()]
    return bars_of(*np.array([*rows, *last]).T, np.ones(60 + len(last)))


@pytest.mark.parametrize(
    ("candles", "name", "direction"),
    [
        ([(70.5, 70.6, 69.4, 69.5), (69.3, 72.1, 69.2, 72.0)], "engulfing", "bullish"),
        ([(69.1, 69.15, 66.0, 69.05)], "doji", "undecided"),
        ([(70.0, 73.0, 70.0, 73.0)], "marubozu", "bullish"),
    ],
)
def test_a_pattern_is_found_where_it_ends(
    candles: list[tuple[float, float, float, float]], name: str, direction: str
) -> None:
    bars = falling(*candles)
    assert Pattern(bars.dates[-1], name, direction) in patterns(bars)  # type: ignore[arg-type]


def test_an_old_pattern_is_not_given() -> None:
    candles = [(70.5, 70.6, 69.4, 69.5), (69.3, 72.1, 69.2, 72.0)]
    calm = [(72.0, 72.2, 71.8, 72.1)] * RECENT
    assert not [one for one in patterns(falling(*candles, *calm)) if one.name == "engulfing"]
