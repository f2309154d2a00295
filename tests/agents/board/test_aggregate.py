"""Aggregates by hand: pooled log odds, dissent, effective voices, consensus above chance."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.board.karma import aggregate, board_consensus, in_round, pooled
from tests.agents.board.kit import BOARD, position

FACTIONS = {"a": "pattern", "b": "pattern", "c": "ledger"}
EQUAL = dict.fromkeys(FACTIONS, 1 / 3)


def test_pooling_is_the_mean_of_log_odds_by_share() -> None:
    assert pooled({"a": 0.8, "b": 0.2}, {"a": 1, "b": 1}) == pytest.approx(0.5)
    assert pooled({"a": 0.8, "b": 0.5}, {"a": 1, "b": 1}) == pytest.approx(2 / 3)
    assert pooled({"a": 0.8, "b": 0.2}, {"a": 3, "b": 1}) == pytest.approx(2 / 3)
    assert pooled({"a": 0.8, "b": 0.2}, {"a": 1, "b": 0}) == pytest.approx(0.8)
    assert pooled({"a": 0.8, "b": 0.2}, {}) == pytest.approx(0.5)
    assert pooled({"a": 1.0}, {"a": 1}) == pytest.approx(0.99)


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), min_size=1), st.floats(0.1, 5))
def test_a_pooled_probability_lies_among_its_own_whatever_the_scale_of_shares(
    forecasts: dict[str, float], scale: float
) -> None:
    shares = {voice: at + 1.0 for at, voice in enumerate(sorted(forecasts))}
    found = pooled(forecasts, shares)
    clipped = [min(max(one, 0.01), 0.99) for one in forecasts.values()]
    assert min(clipped) - 1e-9 <= found <= max(clipped) + 1e-9
    assert pooled(forecasts, {voice: scale * share for voice, share in shares.items()}) == pytest.approx(found)


def test_one_question_by_hand() -> None:
    given_positions = [
        position([], voice="a", probability=0.7, because="one"),
        position([], voice="b", probability=0.7, because="two"),
        position([], voice="c", probability=0.2, because="three"),
    ]
    (found,) = aggregate(given_positions, BOARD, 1, EQUAL, FACTIONS, correlation=0.6)
    odds = (2 * math.log(7 / 3) + math.log(0.25)) / 3
    assert found.probability == pytest.approx(1 / (1 + math.exp(-odds)))
    assert (found.question, found.round, found.voices, found.baseline) == ("Q1", 1, 3, 0.5)
    assert found.effective == pytest.approx(3 / 2.2)
    assert [(one.voice, one.because) for one in found.dissent] == [("c", "three"), ("a", "one")]
    assert found.agreement is not None
    assert found.agreement.share == pytest.approx(2 / 3)
    # Of three coins the larger side has 3/4 on average.
    assert found.agreement.corrected == pytest.approx((2 / 3 - 3 / 4) / (1 / 4))
    assert found.by_faction["pattern"] is not None
    assert found.by_faction["pattern"].corrected == pytest.approx(1.0)
    consensus = board_consensus([found])
    assert consensus.overall == pytest.approx(-1 / 3)
    assert consensus.by_faction == {"ledger": None, "pattern": pytest.approx(1.0)}


def test_a_single_voice_without_a_record_has_no_agreement() -> None:
    (found,) = aggregate([position([], voice="a", probability=0.5)], BOARD, 1, {}, {})
    assert (found.effective, found.agreement, found.dissent) == (None, None, ())
    assert aggregate([], BOARD, 1, {}, {}) == []
    assert board_consensus([]).overall is None


def test_a_voice_that_sat_round_two_out_keeps_its_position() -> None:
    given_positions = [
        position([], voice="a", probability=0.7),
        position([], voice="b", probability=0.4),
        position([], voice="a", number=2, probability=0.6),
    ]
    assert {one.voice: one.round for one in in_round(given_positions, 2)} == {"a": 2, "b": 1}
    assert {one.round for one in in_round(given_positions, 1)} == {1}
    (first,), (second,) = (aggregate(given_positions, BOARD, number, EQUAL, FACTIONS) for number in (1, 2))
    assert first.voices == second.voices == 2
    assert second.probability == pytest.approx(pooled({"a": 0.6, "b": 0.4}, EQUAL))
