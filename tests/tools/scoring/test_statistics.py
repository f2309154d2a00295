"""Points, the calibration table, one score a source."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.statistics import (
    CalibrationRow,
    ScoredForecast,
    alpha,
    brier,
    calibration_table,
    log_score,
    score,
)

shares = st.floats(0, 1)


def test_points_by_hand() -> None:
    assert brier(0.7, 1) == pytest.approx(0.09)
    assert brier(0.7, 0) == pytest.approx(0.49)
    assert brier(0.7, 0.6) == pytest.approx(0.01)
    assert log_score(0.7, 1) == pytest.approx(-0.3566749)
    assert log_score(0.7, 0.5) == pytest.approx(0.5 * math.log(0.7) + 0.5 * math.log(0.3))
    assert alpha(0.7, 0.6, 1) == pytest.approx(0.07)
    assert alpha(0.7, 0.6, 0) == pytest.approx(-0.13)


def test_a_log_score_is_clipped() -> None:
    assert log_score(0.0, 1) == log_score(0.005, 1) == pytest.approx(math.log(0.01))
    assert log_score(1.0, 1) == pytest.approx(math.log(0.99))


@given(shares, st.floats(0.01, 0.99))
def test_no_forecast_beats_the_true_chance_on_average(forecast: float, chance: float) -> None:
    """Both scores are proper: their mean is best for a voice that gives the chance it believes in."""

    def mean(score: object, p: float) -> float:
        assert callable(score)
        return float(chance * score(p, 1) + (1 - chance) * score(p, 0))

    assert mean(brier, chance) <= mean(brier, forecast) + 1e-12
    assert mean(log_score, chance) >= mean(log_score, forecast) - 1e-12


@pytest.mark.parametrize(("forecast", "outcome"), [(1.4, 1), (-0.1, 0), (math.nan, 1), (0.5, 2), (0.5, math.nan)])
def test_a_score_needs_a_probability_and_an_outcome(forecast: float, outcome: float) -> None:
    for points in (brier, log_score):
        with pytest.raises(UsageError, match="not from 0 to 1"):
            points(forecast, outcome)


BEGUN = dt.datetime(2026, 1, 5, 20, tzinfo=dt.UTC)


def forecast(
    question: str,
    probability: float,
    outcome: float,
    day: int = 0,
    *,
    source: str = "a",
    run: str = "r",
    round: int = 1,
) -> ScoredForecast:
    at = BEGUN + dt.timedelta(days=day)
    return ScoredForecast(source, question, at, at + dt.timedelta(days=14), probability, 0.5, outcome, "m", run, round)


def a_table(points: list[tuple[float, float]], buckets: int = 10) -> list[CalibrationRow]:
    rows = [forecast(f"q{at}", *point, day=at) for at, point in enumerate(points)]
    return calibration_table(rows, buckets)


def test_forecasts_that_overlap_are_worth_fewer() -> None:
    """Outcomes of a sum of 14 daily moves, asked daily: 400 questions of one bucket are no 400 draws."""
    moves = np.random.default_rng(1).normal(size=414)
    (row,) = a_table([(0.55, float(moves[day : day + 14].sum() > 0)) for day in range(400)])
    assert row.least is not None
    assert row.most is not None
    assert row.most - row.least > 2.5 * 2 * 1.96 * 0.5 / 20, "20 is the root of 400"


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.4, 1.0])), max_size=60), st.integers(1, 20))
def test_each_forecast_is_in_one_row(points: list[tuple[float, float]], buckets: int) -> None:
    rows = a_table(points, buckets)
    assert sum(row.n for row in rows) == len(points)
    assert [row.low for row in rows] == sorted({row.low for row in rows})
    for row in rows:
        assert row.low - 1e-6 <= row.forecast <= row.high + 1e-6
        if row.least is not None and row.most is not None:
            assert row.least - 1e-9 <= row.rate <= row.most + 1e-9
    assert sum(row.n * row.rate for row in rows) == pytest.approx(sum(outcome for _, outcome in points))


def test_bad_input_is_refused() -> None:
    with pytest.raises(UsageError, match=r"probability 1\.4"):
        a_table([(1.4, 1)])
    with pytest.raises(UsageError, match="outcome nan"):
        a_table([(0.4, math.nan)])
    with pytest.raises(UsageError, match="0 buckets"):
        a_table([], 0)


def test_a_score_by_hand() -> None:
    """Two questions of one date and one of another: Brier .09, .49 and .04, alpha .16, -.24 and .21."""
    found = score([forecast("q1", 0.7, 1), forecast("q2", 0.7, 0), forecast("q3", 0.2, 0, day=1)])
    assert found is not None
    assert (found.questions, found.forecasts, found.brier.dates) == (3, 3, 2)
    assert found.brier.mean == pytest.approx(0.62 / 3)
    assert found.alpha.mean == pytest.approx(0.13 / 3)
    assert found.log.mean == pytest.approx((math.log(0.7) + math.log(0.3) + math.log(0.8)) / 3)
    assert (found.alpha.error, found.alpha.lack) == (None, "too few")
    assert [(row.low, row.n, row.rate) for row in found.calibration] == [(0.2, 1, 0.0), (0.7, 2, 0.5)]


def test_a_question_that_is_forecast_daily_counts_once() -> None:
    """Its points are their mean, its date and its place in the calibration table those of the first."""
    daily = [forecast("q1", 0.5 + day / 20, 1, day=day) for day in range(9)]
    found = score([*reversed(daily), forecast("q2", 0.9, 0, day=4)])
    assert found is not None
    assert (found.questions, found.forecasts, found.brier.dates) == (2, 10, 2)
    mean = sum((0.5 - day / 20) ** 2 for day in range(9)) / 9
    assert found.brier.mean == pytest.approx((mean + 0.81) / 2)
    assert [(row.low, row.n) for row in found.calibration] == [(0.5, 1), (0.9, 1)]
