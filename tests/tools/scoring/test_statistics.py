"""Points, means with the error of their dates, intervals, the calibration table, one score a source."""

from __future__ import annotations

import datetime as dt
import math
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.statistics import (
    ScoredForecast,
    alpha,
    brier,
    calibration_table,
    dated_mean,
    log_score,
    score,
    t_95,
    wilson,
)

shares = st.floats(0, 1)
N = 20_000


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


START = date(2026, 1, 5)


def days(*numbers: int) -> list[date]:
    return [START + timedelta(days=number) for number in numbers]


def test_two_dates_by_hand() -> None:
    """Values 1, 1 and 3, 5: mean 2.5, sums of deviations -3 and 3, so sqrt(2 / 1 * 18) / 4 = 1.5."""
    found = dated_mean(zip(days(0, 0, 1, 1), [1.0, 1.0, 3.0, 5.0], strict=True))
    assert found is not None
    assert (found.mean, found.n, found.dates) == (2.5, 4, 2)
    assert found.error == pytest.approx(math.sqrt(2 * (9 + 9)) / 4)
    assert found.lower == pytest.approx(2.5 - 12.7062 * 1.5)
    assert found.upper == pytest.approx(2.5 + 12.7062 * 1.5)


def test_one_date_has_a_mean_and_no_error() -> None:
    found = dated_mean(zip(days(0, 0), [1.0, 2.0], strict=True))
    assert found is not None
    assert (found.mean, found.error, found.lower, found.upper) == (1.5, None, None, None)


def test_without_values_there_is_none() -> None:
    assert dated_mean([]) is None


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_one_value_a_date_gives_the_usual_error(values: list[float]) -> None:
    found = dated_mean(zip(days(*range(len(values))), values, strict=True))
    assert found is not None
    assert found.error == pytest.approx(float(np.std(values, ddof=1)) / math.sqrt(len(values)), abs=1e-9)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=10), st.integers(2, 20))
def test_copies_within_a_date_prove_nothing(values: list[float], copies: int) -> None:
    dates = days(*range(len(values)))
    once = dated_mean(zip(dates, values, strict=True))
    often = dated_mean(zip(dates * copies, values * copies, strict=True))
    assert once is not None
    assert often is not None
    assert often.n == copies * once.n
    assert often.error == pytest.approx(once.error, abs=1e-9)


def test_the_interval_holds_zero_for_noise_that_a_date_shares() -> None:
    """60 dates with 20 values that share half of their noise: the interval misses 0 in about 5 % of draws, where errors
    of single values would miss it in most."""
    draws = np.random.default_rng(11)
    missed = naive = 0
    for _ in range(300):
        values = draws.normal(size=(60, 1)) + draws.normal(size=(60, 20))
        found = dated_mean(
            (day, float(value)) for day, row in zip(days(*range(60)), values, strict=True) for value in row
        )
        assert found is not None
        assert found.lower is not None
        assert found.upper is not None
        missed += not found.lower <= 0 <= found.upper
        naive += abs(found.mean) > 1.96 * values.std() / math.sqrt(values.size)
    assert 0.02 <= missed / 300 <= 0.10
    assert naive / 300 > 0.4


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.706), (2, 4.303), (5, 2.571), (20, 2.086), (21, 2.080), (29, 2.045), (60, 2.000), (1000, 1.962)],
)
def test_known_quantiles(degrees: int, quantile: float) -> None:
    assert t_95(degrees) == pytest.approx(quantile, abs=1e-3)


def test_they_fall_towards_the_normal_one() -> None:
    found = [t_95(degrees) for degrees in range(1, 200)]
    assert found == sorted(found, reverse=True)
    assert found[-1] > 1.959964


def test_known_intervals() -> None:
    """1,782 tries of which 58.5 % hit: 56 to 61 %; and 0 of 10, where share +- error would give nothing."""
    found = wilson(1042, 1782)
    assert found == pytest.approx((0.5617, 0.6074), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.27754), abs=1e-5)
    assert wilson(5, 10) == pytest.approx((0.23659, 0.76341), abs=1e-5)


def test_without_a_try_there_is_none() -> None:
    assert wilson(0, 0) is None


@given(st.integers(1, 5000), st.floats(0, 1))
def test_it_holds_the_share_and_narrows_with_tries(n: int, share: float) -> None:
    found, more = wilson(share * n, n), wilson(share * n * 4, n * 4)
    assert found is not None
    assert more is not None
    assert 0 <= found.low <= share + 1e-9
    assert share - 1e-9 <= found.high <= 1
    assert more.high - more.low < found.high - found.low


@pytest.mark.parametrize("hits", [-1, 11, float("nan")])
def test_hits_lie_from_none_to_all(hits: float) -> None:
    with pytest.raises(UsageError, match="hits of 10"):
        wilson(hits, 10)


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


def test_bad_input_is_refused() -> None:
    with pytest.raises(UsageError, match=r"probability 1\.4"):
        calibration_table([(1.4, 1)])
    with pytest.raises(UsageError, match="outcome nan"):
        calibration_table([(0.4, math.nan)])
    with pytest.raises(UsageError, match="0 buckets"):
        calibration_table([], 0)


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


def test_a_score_by_hand() -> None:
    """Two questions of one date and one of another: Brier .09, .49 and .04, alpha .16, -.24 and .21."""
    found = score([forecast("q1", 0.7, 1), forecast("q2", 0.7, 0), forecast("q3", 0.2, 0, day=1)])
    assert found is not None
    assert (found.questions, found.forecasts, found.brier.dates) == (3, 3, 2)
    assert found.brier.mean == pytest.approx(0.62 / 3)
    assert found.alpha.mean == pytest.approx(0.13 / 3)
    assert found.log.mean == pytest.approx((math.log(0.7) + math.log(0.3) + math.log(0.8)) / 3)
    deviation = 0.21 - 0.13 / 3
    assert found.alpha.error == pytest.approx(math.sqrt(2 * 2 * deviation**2) / 3)
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


def test_without_a_forecast_there_is_no_score() -> None:
    assert score([]) is None
