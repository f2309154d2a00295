"""Agreement against chance, the diversity identity, and voices that count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.voices import (
    agreement,
    agreements,
    consensus,
    effective_voices,
    error_correlation,
    majority_by_chance,
)

crowds = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_five_of_six_is_half_of_what_is_left() -> None:
    found = agreement([0.6, 0.7, 0.8, 0.55, 0.9, 0.4], 0.5)
    assert found is not None
    assert (found.n, found.share) == (6, pytest.approx(5 / 6))
    assert found.corrected == pytest.approx((5 / 6 - 0.65625) / 0.34375)


def test_a_voice_on_the_baseline_takes_no_side() -> None:
    found = agreement([0.3, 0.3, 0.5], 0.3)
    assert found is not None
    assert (found.n, found.corrected) == (1, None)
    assert agreement([0.3], 0.3) is None


def test_factions_can_agree_where_the_whole_does_not() -> None:
    forecasts = {"a": 0.8, "b": 0.7, "c": 0.2, "d": 0.3, "e": 0.9}
    factions = {"a": "bulls", "b": "bulls", "c": "bears", "d": "bears", "e": "alone"}
    overall, within = agreements(forecasts, factions, 0.5)
    assert overall is not None
    assert overall.corrected == pytest.approx((0.6 - 0.6875) / 0.3125)
    assert {name: found and found.corrected for name, found in within.items()} == {
        "bulls": pytest.approx(1.0),
        "bears": pytest.approx(1.0),
        "alone": None,
    }


def test_coin_flips_have_no_consensus_over_many_questions() -> None:
    draws = np.random.default_rng(5)
    flips = [agreement(row, 0.5) for row in draws.random((4000, 6)).tolist()]
    assert consensus(flips) == pytest.approx(0.0, abs=0.02)
    assert consensus([agreement([0.9] * 6, 0.5)] * 3) == pytest.approx(1.0)
    assert consensus([agreement([0.9], 0.5), None]) is None


def test_six_voices_of_one_model_count_as_one_and_a_half() -> None:
    assert effective_voices(6, 0.6) == pytest.approx(1.5)
    assert effective_voices(6, 0.0) == 6
    assert effective_voices(6, 1.0) == 1
    assert effective_voices(3, -0.5) is None


def test_errors_that_share_half_correlate_by_half() -> None:
    draws = np.random.default_rng(9)
    errors = draws.normal(size=(1, 20_000)) + draws.normal(size=(5, 20_000))
    assert error_correlation(errors) == pytest.approx(0.5, abs=0.02)
    with_a_constant = np.vstack([errors, np.full(20_000, 0.2)])
    assert error_correlation(with_a_constant) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("errors", [np.ones((1, 9)), np.zeros((4, 9)), np.eye(2), np.zeros(4)])
def test_too_few_errors_have_no_correlation(errors: np.ndarray) -> None:
    assert error_correlation(errors) is None


def test_no_voices_have_no_majority() -> None:
    with pytest.raises(UsageError, match="0 voices"):
        majority_by_chance(0)
    assert not math.isnan(majority_by_chance(40))
