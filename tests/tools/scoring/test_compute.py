"""Compute by skill: shares, turns, and the voices that end."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.statistics import DatedMean, alpha, dated_mean
from chordesk.tools.scoring.voices import VoiceRecord, compute_shares, extinct, plan_turns

SIX = ("a", "b", "c", "d", "e", "f")


def record(voice: str, mean: float, error: float | None, n: int = 400) -> VoiceRecord:
    return VoiceRecord(voice, DatedMean(mean, error, n, max(1, n // 10)))


def test_shares_are_equal_until_skill_is_proven() -> None:
    unproven = [VoiceRecord("a"), record("b", 0.01, 0.02), record("c", 0.05, None, 10), record("d", -0.1, 0.01)]
    assert compute_shares(unproven) == dict.fromkeys("abcd", pytest.approx(0.25))
    assert compute_shares([]) == {}


def test_half_goes_by_the_lower_bound() -> None:
    """On 40 dates, 2.0227 errors below: .02977 and .00977 are 75.3 % and 24.7 % of the second half."""
    shares = compute_shares([record("a", 0.05, 0.01), record("b", 0.03, 0.01), record("c", 0, 0.01), VoiceRecord("d")])
    assert shares == {
        "a": pytest.approx(0.125 + 0.5 * 0.02977 / 0.03954, abs=1e-4),
        "b": pytest.approx(0.125 + 0.5 * 0.00977 / 0.03954, abs=1e-4),
        "c": 0.125,
        "d": 0.125,
    }


def test_turns_follow_shares_and_keep_their_sum() -> None:
    equal = compute_shares([VoiceRecord(voice) for voice in SIX])
    assert plan_turns(equal, SIX, 2) == dict.fromkeys(SIX, 2)
    skilled = compute_shares([record("a", 0.05, 0.01), *(VoiceRecord(voice) for voice in SIX[1:])])
    assert plan_turns(skilled, SIX, 2) == {"a": 7, **dict.fromkeys(SIX[1:], 1)}
    assert plan_turns({}, SIX, 2) == dict.fromkeys(SIX, 2)
    assert plan_turns(equal, [], 2) == {}


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
            assert one.alpha.upper is not None
            assert one.alpha.upper < 0


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


@pytest.mark.parametrize(("push", "ends"), [(0.0, False), (0.35, True)])
def test_luck_does_not_end_a_voice_and_overconfidence_does(push: float, ends: bool) -> None:
    """400 questions on 40 dates at a baseline of .5: a voice without skill, timid or 35 points too sure."""
    draws = np.random.default_rng(2)
    values = []
    for at in range(400):
        forecast = 0.5 + push * (1 if draws.random() < 0.5 else -1) + draws.normal() * 0.02
        outcome = float(draws.random() < 0.5)
        values.append((date(2026, 1, 1) + timedelta(days=at // 10), alpha(min(max(forecast, 0), 1), 0.5, outcome)))
    drawn = [VoiceRecord("a", dated_mean(values)), *(VoiceRecord(voice) for voice in "xyz")]
    assert extinct(drawn, {"a", "x", "y", "z"}) == ({"a"} if ends else set())


def test_rounds_are_at_least_one() -> None:
    with pytest.raises(UsageError, match="0 rounds"):
        plan_turns({"a": 1.0}, ["a"], 0)
