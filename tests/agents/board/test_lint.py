"""Checks of the second round: whose text a voice took over, and the loss of spread."""

from __future__ import annotations

import math

import pytest

from chordesk.agents.board.karma import RESOLVED, convergence, herding
from chordesk.models.board import VoicePosition
from tests.agents.board.kit import position

FIRST = "Volume fades into the bounce while funding turns against the crowd, so the rally looks tired to me."
OTHER = "Heat leaves room for a single bet, hence a small position on the side of the venue that pays."


def answer(voice: str, number: int, because: str, probability: float = 0.6, label: str = "Q1") -> VoicePosition:
    return position([], voice=voice, number=number, because=because, probability=probability, label=label)


class TestConvergence:
    def test_a_text_taken_over_names_its_author(self) -> None:
        (found,) = convergence([answer("a", 1, FIRST), answer("b", 1, OTHER), answer("b", 2, f"Indeed: {FIRST}")])
        assert (found.voice, found.source, found.question, found.copied) == ("b", "a", "Q1", True)
        assert found.score == 1.0

    def test_ones_own_text_kept_is_no_copy(self) -> None:
        assert convergence([answer("a", 1, FIRST), answer("b", 1, OTHER), answer("b", 2, OTHER)]) == []

    def test_texts_that_were_alike_blind_are_no_copies(self) -> None:
        same = [answer("a", 1, FIRST), answer("b", 1, FIRST), answer("b", 2, FIRST)]
        assert convergence(same) == []

    def test_a_text_of_another_question_is_found(self) -> None:
        (found,) = convergence([answer("a", 1, FIRST, label="Q2"), answer("b", 2, FIRST)])
        assert (found.source, found.question) == ("a", "Q1")

    def test_a_near_text_is_a_note(self) -> None:
        half = " ".join(FIRST.split()[:8])
        (found,) = convergence([answer("a", 1, FIRST), answer("b", 2, f"{half}; I add nothing to it myself.")])
        assert not found.copied
        assert 0.4 <= found.score < 0.6

    def test_a_text_of_round_two_alone_is_compared_with_nobodys_round_two(self) -> None:
        assert convergence([answer("a", 2, FIRST), answer("b", 2, FIRST)]) == []


def rounds(blind: list[float], informed: list[float]) -> list[VoicePosition]:
    made = [answer(f"v{at}", 1, "", one) for at, one in enumerate(blind)]
    return made + [answer(f"v{at}", 2, "", one) for at, one in enumerate(informed)]


class TestHerding:
    def test_the_spread_is_that_of_log_odds(self) -> None:
        found = herding(rounds([0.2, 0.8], [0.4, 0.6]), [])
        assert found.blind == pytest.approx(math.log(4))
        assert found.informed == pytest.approx(math.log(1.5))
        assert found.left == pytest.approx(math.log(1.5) / math.log(4))

    @pytest.mark.parametrize(
        ("informed", "gains", "alarm"),
        [
            ([0.45, 0.55], [0.0] * RESOLVED, True),
            ([0.45, 0.55], [-0.1] * RESOLVED, True),
            ([0.45, 0.55], [0.1] * RESOLVED, False),
            ([0.45, 0.55], [0.1] * (RESOLVED - 1), None),
            ([0.45, 0.55], [0.9] * 100 + [-0.1] * RESOLVED, True),
            ([0.25, 0.75], [-0.1] * RESOLVED, False),
            ([0.2, 0.8], [], False),
        ],
    )
    def test_an_alarm_needs_half_of_the_spread_gone_and_no_gain(
        self, informed: list[float], gains: list[float], alarm: bool | None
    ) -> None:
        assert herding(rounds([0.2, 0.8], informed), gains).alarm is alarm

    def test_one_voice_or_one_round_has_no_spread(self) -> None:
        assert herding(rounds([0.2], [0.4]), []).blind is None
        assert herding(rounds([0.2, 0.8], []), []).left is None

    def test_voices_that_agree_from_the_start_do_not_herd(self) -> None:
        found = herding(rounds([0.5, 0.5], [0.5, 0.5]), [-1.0] * RESOLVED)
        assert (found.left, found.alarm) == (None, False)
