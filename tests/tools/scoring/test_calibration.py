"""The calibration table: by hand, for a calibrated and for an overconfident voice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.statistics import calibration_table, wilson


def test_a_table_by_hand() -> None:
    rows = calibration_table([(0.62, 1), (0.68, 0), (0.6, 1), (0.1, 0), (1.0, 1)])
    assert [(row.low, row.high, row.n) for row in rows] == [(0.1, 0.2, 1), (0.6, 0.7, 3), (0.9, 1.0, 1)]
    middle = rows[1]
    assert (middle.forecast, middle.rate) == pytest.approx((1.9 / 3, 2 / 3))
    assert (middle.least, middle.most) == wilson(2, 3)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.4, 1.0])), max_size=60), st.integers(1, 20))
def test_each_forecast_is_in_one_row(points: list[tuple[float, float]], buckets: int) -> None:
    rows = calibration_table(points, buckets)
    assert sum(row.n for row in rows) == len(points)
    assert [row.low for row in rows] == sorted({row.low for row in rows})
    for row in rows:
        assert row.low - 1e-6 <= row.forecast <= row.high + 1e-6
        assert row.least - 1e-9 <= row.rate <= row.most + 1e-9
    assert sum(row.n * row.rate for row in rows) == pytest.approx(sum(outcome for _, outcome in points))


def drawn(push: float) -> list[tuple[float, float]]:
    """Return 8,000 forecasts, their distance from 0.5 times `push`, on chances even from 0.2 to 0.8."""
    draws = np.random.default_rng(3)
    chances = draws.uniform(0.2, 0.8, 8000)
    outcomes = (draws.random(8000) < chances).astype(float)
    return list(zip((0.5 + push * (chances - 0.5)).tolist(), outcomes.tolist(), strict=True))


def test_a_calibrated_voice_lies_in_its_intervals() -> None:
    rows = calibration_table(drawn(1.0))
    assert sum(row.least <= row.forecast <= row.most for row in rows) >= len(rows) - 1


def test_an_overconfident_voice_lies_outside_at_both_ends() -> None:
    rows = calibration_table(drawn(1.6))
    assert rows[0].forecast < rows[0].least
    assert rows[-1].forecast > rows[-1].most


def test_bad_input_is_refused() -> None:
    with pytest.raises(UsageError, match=r"probability 1\.4"):
        calibration_table([(1.4, 1)])
    with pytest.raises(UsageError, match="outcome nan"):
        calibration_table([(0.4, math.nan)])
    with pytest.raises(UsageError, match="0 buckets"):
        calibration_table([], 0)
