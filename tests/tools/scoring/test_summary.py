"""Scores of a source: each question once, each date one draw."""

from __future__ import annotations

import datetime as dt
import math

import pytest

from chordesk.tools.scoring.statistics import ScoredForecast, score

START = dt.datetime(2026, 1, 5, 20, tzinfo=dt.UTC)


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
    at = START + dt.timedelta(days=day)
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
