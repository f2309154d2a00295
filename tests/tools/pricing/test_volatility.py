"""Volatility from whole bars: a known stretch, and what must hold for any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tools import figures
from chordesk.tools.pricing import yang_zhang
from tests.tools.pricing.bars import aapl


def test_volatilities_of_known_bars() -> None:
    bars = aapl()
    assert yang_zhang(*bars, 20) == pytest.approx(0.328238, abs=1e-6)
    assert figures.volatility(bars.close, 20) == pytest.approx(0.335004, abs=1e-6)
    assert figures.volatility(bars.close, 60) == pytest.approx(0.236149, abs=1e-6)


def test_the_rank_of_known_bars() -> None:
    assert figures.volatility_rank(aapl().close, 20, 252) == pytest.approx((0.7210, 252), abs=1e-4)


def test_too_few_bars_have_none() -> None:
    bars = aapl()
    short = [column[-20:] for column in bars]
    assert yang_zhang(*short, 20) is None
    assert yang_zhang(*(column[-21:] for column in bars), 20) is not None
    assert yang_zhang(*bars, 1) is None


def test_a_hole_in_the_bars_has_none() -> None:
    holed = [column.copy() for column in aapl()]
    for column in holed:
        column[-5] = np.nan
    assert yang_zhang(*holed, 20) is None


def test_a_flat_line_has_none_at_all() -> None:
    flat = np.full(40, 10.0)
    assert yang_zhang(flat, flat, flat, flat, 20) == 0.0
    assert figures.volatility_rank(flat, 20, 252) == (None, 20)


@given(st.floats(0.01, 1000), st.integers(0, 200))
def test_scale_and_older_bars_do_not_count(scale: float, dropped: int) -> None:
    bars = aapl()
    moved = [column[dropped:] * scale for column in bars]
    assert yang_zhang(*moved, 20) == pytest.approx(yang_zhang(*bars, 20), rel=1e-9)
