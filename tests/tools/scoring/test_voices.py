"""Compute by skill: shares, turns, and the voices that end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.inference import Estimate, known_estimate
from chordesk.tools.scoring.voice_scores import (
    VoiceRecord,
    agreement,
    agreements,
    compute_shares,
    consensus,
    crowd,
    effective_voices,
    error_correlation,
    extinct,
    majority_by_chance,
    plan_turns,
    revision_gain,
)
from tests.tools.scoring.test_statistics import forecast


def record(voice: str, mean: float, error: float | None, n: int = 400) -> VoiceRecord:
    """A record on 40 degrees of freedom: 95 % is 2.0211 errors."""
    found = (
        Estimate(mean, n, 9, 1, lack="too few") if error is None else known_estimate(mean, error, 40, n, 41, 41, n / 2)
    )
    return VoiceRecord(voice, found)


def test_shares_are_equal_until_skill_is_proven() -> None:
    unproven = [VoiceRecord("a"), record("b", 0.01, 0.02), record("c", 0.05, None, 10), record("d", -0.1, 0.01)]
    assert compute_shares(unproven) == dict.fromkeys("abcd", pytest.approx(0.25))
    assert compute_shares([]) == {}


def test_half_goes_by_the_lower_bound() -> None:
    """Two of three are told from 0, so their bounds hold with 1 - .05 * 2 / 3: 2.2041 errors below."""
    shares = compute_shares([record("a", 0.05, 0.01), record("b", 0.03, 0.01), record("c", 0, 0.01), VoiceRecord("d")])
    assert shares == {
        "a": pytest.approx(0.125 + 0.5 * 0.02796 / 0.03592, abs=1e-4),
        "b": pytest.approx(0.125 + 0.5 * 0.00796 / 0.03592, abs=1e-4),
        "c": 0.125,
        "d": 0.125,
    }


records = st.lists(
    st.builds(
        record,
        st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h"]),
        st.floats(-0.2, 0.2),
        st.none() | st.floats(0.001, 0.1),
        st.integers(1, 800),
    ),
    unique_by=lambda one: one.voice,
    max_size=8,
)


@given(records, st.integers(1, 4))
def test_every_voice_has_a_turn_and_the_total_stays(drawn: list[VoiceRecord], rounds: int) -> None:
    shares = compute_shares(drawn)
    assert sum(shares.values()) == pytest.approx(1 if drawn else 0)
    assert all(share >= 0.5 / len(drawn) - 1e-12 for share in shares.values())
    turns = plan_turns(shares, list(shares), rounds)
    assert sum(turns.values()) == rounds * len(drawn)
    assert all(count >= 1 for count in turns.values())
    for one in shares:
        for other in shares:
            assert shares[one] < shares[other] + 1e-6 or turns[one] >= turns[other]


@given(records)
def test_only_a_proven_loss_ends_a_voice_and_three_stay(drawn: list[VoiceRecord]) -> None:
    alive = {one.voice for one in drawn}
    ending = extinct(drawn, alive)
    assert ending <= alive
    assert len(alive) - len(ending) >= min(3, len(alive))
    for one in drawn:
        if one.voice in ending:
            assert one.alpha is not None
            assert one.alpha.n >= 350
            assert one.alpha.high is not None
            assert one.alpha.high < 0


def test_the_bounds_of_extinction() -> None:
    others = [VoiceRecord("x"), VoiceRecord("y"), VoiceRecord("z")]
    alive = {"a", "x", "y", "z"}
    assert extinct([record("a", -0.05, 0.02, 350), *others], alive) == {"a"}
    assert extinct([record("a", -0.05, 0.02, 349), *others], alive) == set()
    assert extinct([record("a", -0.05, 0.026, 350), *others], alive) == set()
    assert extinct([record("a", -0.05, None, 350), *others], alive) == set()
    assert extinct([record("a", -0.05, 0.02, 350), *others], {"a", "x", "y"}) == set()
    assert extinct([record("a", -0.05, 0.02, 350), *others], {"x", "y", "z"}) == set()


def test_the_worst_end_first() -> None:
    drawn = [record("a", -0.05, 0.01), record("b", -0.09, 0.01), record("c", -0.07, 0.01), record("d", -0.02, 0.005)]
    assert extinct(drawn, {"a", "b", "c", "d", "e"}) == {"b", "c"}


def test_rounds_are_at_least_one() -> None:
    with pytest.raises(UsageError, match="0 rounds"):
        plan_turns({"a": 1.0}, ["a"], 0)


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


def test_a_gain_is_paired_by_run_and_question() -> None:
    """.6 to .8 on a yes gains .12; .3 to .4 on a no loses .07; a question of one round counts for nothing."""
    rows = [
        forecast("q1", 0.6, 1),
        forecast("q1", 0.8, 1, round=2),
        forecast("q2", 0.3, 0, day=1),
        forecast("q2", 0.4, 0, day=1, round=2),
        forecast("q3", 0.1, 1),
    ]
    found = revision_gain(rows)
    assert found is not None
    assert (found.n, found.dates) == (2, 2)
    assert found.mean == pytest.approx((0.12 - 0.07) / 2)
    assert revision_gain(rows[:1]) is None


def test_the_aggregates_of_both_rounds_are_scored_on_the_same_questions() -> None:
    rows = [
        forecast("q1", 0.5, 1),
        forecast("q1", 0.7, 1, round=2),
        forecast("q8", 0.2, 1, round=2),
        forecast("q9", 0.1, 1, run="of one round"),
    ]
    found = crowd(rows)
    assert found is not None
    assert (found.blind.questions, found.informed.questions) == (1, 1)
    assert (found.blind.brier.mean, found.informed.brier.mean) == (0.25, pytest.approx(0.09))
    assert found.gain.mean == pytest.approx(0.16)
    assert crowd(rows[:1]) is None


@pytest.mark.parametrize(("noise", "gain", "used"), [(0.01, 0.1, 2), (0.01, -0.1, 1), (0.3, 0.01, 1)])
def test_the_informed_round_is_used_where_its_gain_is_told_from_zero(noise: float, gain: float, used: int) -> None:
    draws = np.random.default_rng(3)
    moves = np.clip(0.6 + gain + draws.normal(0, noise, 400), 0, 1).tolist()
    rows = [forecast(f"q{day}", 0.6, 1, day=day) for day in range(400)]
    rows += [forecast(f"q{day}", move, 1, day=day, round=2) for day, move in enumerate(moves)]
    few, found = crowd([*rows[:9], *rows[400:409]]), crowd(rows)
    assert few is not None
    assert found is not None
    assert few.better_round == 1
    assert found.better_round == used
