"""Actions that follow from closes and adjusted closes: the rounding of either column makes none up."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from chordesk.tools.market.files.bars import corporate_actions

BARS = 300
FIRST = dt.date(2022, 1, 3).toordinal()
SPLIT_AT = 150


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("ratio", "start"), [(21.0, 120.0), (7.0, 45.0), (20.0, 600.0), (4.0, 8.0)])
@pytest.mark.parametrize(("decimals", "finer"), [(4, 6), (2, 4), (2, 6), (4, 4)])
def test_a_split_that_changes_the_weight_of_rounding_makes_no_dividends(
    decimals: int, finer: int, ratio: float, start: float, seed: int
) -> None:
    """Before it the adjusted closes are as coarse as the closes, and after it much finer."""
    moves = np.random.default_rng(seed).normal(0, 0.015, BARS)
    shares = np.where(np.arange(BARS) < SPLIT_AT, ratio, 1.0)
    adjusted = start / ratio * np.exp(np.cumsum(moves))
    days = np.arange(FIRST, FIRST + BARS, dtype=np.int32)
    found = corporate_actions(days, np.round(adjusted * shares, decimals), np.round(adjusted, finer))
    assert [(one.day.toordinal(), one.split) for one in found.actions] == [(FIRST + SPLIT_AT, ratio)]
