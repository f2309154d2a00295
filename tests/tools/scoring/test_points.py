"""Points of forecasts, and what theory says of a random, a perfect and an overconfident voice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.statistics import alpha, brier, log_score

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


@given(shares, shares, shares)
def test_alpha_is_the_difference_of_the_scores(forecast: float, baseline: float, outcome: float) -> None:
    assert alpha(forecast, baseline, outcome) == brier(baseline, outcome) - brier(forecast, outcome)
    assert alpha(baseline, baseline, outcome) == 0


def world(seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """Return a generator, true chances of N questions, even from 0 to 1, and their outcomes."""
    draws = np.random.default_rng(seed)
    chances = draws.random(N)
    return draws, chances, (draws.random(N) < chances).astype(float)


def mean_points(forecasts: np.ndarray, outcomes: np.ndarray) -> tuple[float, float]:
    """Return the mean Brier score and the mean alpha against 0.5."""
    pairs = list(zip(forecasts.tolist(), outcomes.tolist(), strict=True))
    return (
        math.fsum(brier(p, o) for p, o in pairs) / len(pairs),
        math.fsum(alpha(p, 0.5, o) for p, o in pairs) / len(pairs),
    )


def test_a_random_voice_costs_the_variance_of_its_noise() -> None:
    """Noise around 0.5 scores .25 + its variance: 1/12 for noise even from 0 to 1."""
    draws, _, outcomes = world(1)
    score, gain = mean_points(draws.random(N), outcomes)
    assert score == pytest.approx(0.25 + 1 / 12, abs=0.006)
    assert gain == pytest.approx(-1 / 12, abs=0.006)


def test_a_voice_that_knows_the_outcome_is_perfect() -> None:
    _, _, outcomes = world(2)
    assert mean_points(outcomes, outcomes) == pytest.approx((0.0, 0.25))


def test_a_voice_that_knows_the_chance_keeps_what_no_one_can_know() -> None:
    """The mean of c (1 - c) over chances even from 0 to 1 is 1/6."""
    _, chances, outcomes = world(3)
    assert mean_points(chances, outcomes) == pytest.approx((1 / 6, 1 / 12), abs=0.006)


def test_overconfidence_costs_the_square_of_what_it_adds() -> None:
    """Without skill, 0.5 +- d has alpha -d^2; .03 for d = .1732, as measured for rules on prices."""
    draws, _, outcomes = world(4)
    sides = np.where(draws.random(N) < 0.5, 1, -1)
    score, gain = mean_points(0.5 + 0.1732 * sides, outcomes)
    assert (score, gain) == pytest.approx((0.28, -0.03), abs=0.006)


def test_overconfidence_costs_a_skilled_voice_too() -> None:
    """Chances pushed to the ends cost the mean square of the push."""
    _, chances, outcomes = world(5)
    pushed = np.clip(0.5 + 1.8 * (chances - 0.5), 0, 1)
    cost = float(np.mean((pushed - chances) ** 2))
    calibrated, _ = mean_points(chances, outcomes)
    overconfident, _ = mean_points(pushed, outcomes)
    assert overconfident - calibrated == pytest.approx(cost, abs=0.004)
    assert cost > 0.015


@pytest.mark.parametrize(("forecast", "outcome"), [(1.4, 1), (-0.1, 0), (math.nan, 1), (0.5, 2), (0.5, math.nan)])
def test_a_score_needs_a_probability_and_an_outcome(forecast: float, outcome: float) -> None:
    for score in (brier, log_score):
        with pytest.raises(UsageError, match="not from 0 to 1"):
            score(forecast, outcome)
