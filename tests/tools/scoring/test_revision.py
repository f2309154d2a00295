"""Two rounds: what a voice gained by the second, and which round the desk should listen to."""

from __future__ import annotations

import pytest

from chordesk.tools.scoring.voices import crowd, last_positions, revision_gain
from tests.tools.scoring.test_summary import forecast


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


def test_the_last_position_is_that_of_the_last_round_of_each_run() -> None:
    rows = [
        forecast("q1", 0.8, 1, round=2),
        forecast("q1", 0.6, 1),
        forecast("q1", 0.7, 1, day=1, run="s"),
        forecast("q1", 0.2, 1, source="b"),
    ]
    assert sorted(one.probability for one in last_positions(rows)) == [0.2, 0.7, 0.8]


def test_the_crowd_of_each_round_is_scored_on_the_same_questions() -> None:
    """.6 and .4 blind, mean .5; then .9 with the second voice's .4 kept, since it sat the round out: .65."""
    rows = [
        forecast("q1", 0.6, 1, source="a"),
        forecast("q1", 0.4, 1, source="b"),
        forecast("q1", 0.9, 1, source="a", round=2),
        forecast("q9", 0.1, 1, source="a", run="of one round"),
    ]
    found = crowd(rows)
    assert found is not None
    assert (found.blind.questions, found.informed.questions) == (1, 1)
    assert found.blind.brier.mean == pytest.approx(0.25)
    assert found.informed.brier.mean == pytest.approx(0.35**2)
    assert found.gain.mean == pytest.approx(0.25 - 0.35**2)
    assert found.better_round == 2


def test_debate_that_costs_leaves_the_blind_round() -> None:
    rows = [forecast("q1", 0.6, 1), forecast("q1", 0.3, 1, round=2)]
    worse, same = crowd(rows), crowd([forecast("q1", 0.6, 1), forecast("q1", 0.6, 1, round=2)])
    assert worse is not None
    assert same is not None
    assert (worse.better_round, same.better_round) == (1, 1)
    assert crowd([forecast("q1", 0.6, 1)]) is None
