from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import numpy as np
import pytest
import talib
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from chordesk.tools.prices import price_figures
from tests.examples import examples

PRICES = st.integers(1, 300).flatmap(
    lambda n: arrays.arrays(float, n, elements=st.floats(0.5, 5000, allow_nan=False, width=32))
)


def test_rsi_by_wilder_s_recursion(market: Any) -> None:
    close = market.bars("AAPL", 252).close
    gain = loss = 0.0
    for n, change in enumerate(np.diff(close)):
        if n < 14:
            gain, loss = gain + max(change, 0) / 14, loss + max(-change, 0) / 14
        else:
            gain, loss = (gain * 13 + max(change, 0)) / 14, (loss * 13 + max(-change, 0)) / 14
    assert price_figures.rsi(close) == pytest.approx(100 - 100 / (1 + gain / loss))


@settings(max_examples=examples(60), deadline=None)
@given(PRICES)
def test_momentum_and_averages_are_ta_lib_s(close: Any) -> None:
    for sessions in (1, 20, 60):
        ours = price_figures.momentum(close, sessions)
        assert (ours is None) == (len(close) <= sessions)
        if ours is not None:
            assert ours == pytest.approx(talib.ROCP(close, sessions)[-1], rel=1e-9, abs=1e-12)
    ours = price_figures.from_average(close, 20)
    assert (ours is None) == (len(close) < 20)
    if ours is not None:
        assert ours == pytest.approx(close[-1] / talib.SMA(close, 20)[-1] - 1, rel=1e-6, abs=1e-6)


@settings(max_examples=examples(60), deadline=None)
@given(PRICES)
def test_drawdown_is_the_worst_pair(close: Any) -> None:
    ours = price_figures.drawdown(close, 10)
    if len(close) < 10:
        assert ours is None
        return
    window = close[-10:]
    worst = min(window[later] / window[earlier] - 1 for later in range(10) for earlier in range(later + 1))
    assert ours == pytest.approx(worst)


def test_volatility_is_a_year_s_sample_deviation() -> None:
    close = np.array([100.0, 101, 99, 102, 103, 98])
    logs = [math.log(b / a) for a, b in itertools.pairwise(close)]
    assert price_figures.volatility(close, 5) == pytest.approx(statistics.stdev(logs) * math.sqrt(252))
    assert price_figures.volatility(close, 6) is None


def test_distance_from_the_high_sees_only_its_window() -> None:
    close = np.array([10.0, 8.0, 9.0])
    high = np.array([20.0, 9.0, 10.0])
    assert price_figures.from_high(close, high) == pytest.approx(9 / 20 - 1)
    assert price_figures.from_high(close, high, 2) == pytest.approx(9 / 10 - 1)
    assert price_figures.from_high(np.array([]), np.array([])) is None


def test_volume_ratio_leaves_the_last_out_of_its_mean() -> None:
    volume = np.array([10.0, 20.0, 30.0, 60.0])
    assert price_figures.volume_ratio(volume, 3) == pytest.approx(3.0)
    assert price_figures.volume_ratio(volume, 4) is None
    assert price_figures.volume_ratio(np.array([0.0, 0.0, 5.0]), 2) is None  # nothing was traded: no ratio


def test_gap_is_open_to_previous_close() -> None:
    assert price_figures.gap(np.array([1.0, 11.0]), np.array([10.0, 12.0])) == pytest.approx(0.1)
    assert price_figures.gap(np.array([1.0]), np.array([10.0])) is None
