"""Conduct is told and earns nothing; skill is a proper score, which no strategy without information raises."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.agents.board.board_text import Board
from chordesk.agents.board.karma import (
    aggregate,
    board_consensus,
    convergence,
    herding,
    in_round,
    skill,
)
from chordesk.models.questions import VoicePosition
from chordesk.models.tables.board import Forecast
from chordesk.tools.scoring.inference import TOO_FEW, Estimate, known_estimate
from chordesk.tools.scoring.voice_scores import pooled
from tests.agents.board.kit import (
    AUDIT,
    BOARD,
    FUNDING,
    HEAT,
    TEMPORAL,
    cite,
    noted,
    position,
    question,
)
from tests.examples import examples

HEADLINES = {"funding-1": FUNDING, "portfolio-1": HEAT, "factors-1": AUDIT, "temporal-1": TEMPORAL}


def reasons(*positions: VoicePosition) -> list[str]:
    return sorted(one.conduct for one in noted(*positions))


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([], ["isolated"]),
        (["funding-1"], ["own_tool"]),
        (["temporal-1"], []),
        (["funding-1", "temporal-1"], ["synthesis"]),
        (["portfolio-1", "temporal-1"], ["synthesis"]),
        (["funding-1", "temporal-1", "factors-1"], ["deep_synthesis"]),
    ],
)
def test_the_tools_that_count_are_told(labels: list[str], reason: list[str]) -> None:
    assert reasons(position([cite(label) for label in labels])) == reason


class TestChain:
    def test_two_counting_signals_of_two_tools_that_move_the_forecast(self) -> None:
        answer = position([cite("funding-1"), cite("temporal-1")], chain=["funding-1", "temporal-1"], probability=0.52)
        assert reasons(answer) == ["chain", "synthesis"]

    @pytest.mark.parametrize("probability", [0.519, 0.481])
    def test_none_without_a_move(self, probability: float) -> None:
        answer = position(
            [cite("funding-1"), cite("temporal-1")], chain=["funding-1", "temporal-1"], probability=probability
        )
        assert reasons(answer) == ["synthesis"]

    def test_none_with_a_void_part(self) -> None:
        answer = position([cite("funding-1"), cite("temporal-1", TEMPORAL)], chain=["funding-1", "temporal-1"])
        assert reasons(answer) == ["copied", "own_tool"]


class TestCopies:
    @settings(max_examples=examples(60), deadline=None)
    @given(st.data())
    def test_a_copy_adds_no_tool_and_is_told(self, data: st.DataObject) -> None:
        honest = data.draw(st.lists(st.sampled_from(sorted(HEADLINES)), max_size=4, unique=True))
        copied = data.draw(st.lists(st.sampled_from(sorted(HEADLINES)), min_size=1, max_size=4))
        dress = data.draw(st.sampled_from(["{}", "As I see it: {}", "{} {}", "'{}' is all there is to it"]))
        copies = [cite(one, dress.replace("{}", HEADLINES[one]), "quote") for one in copied]
        citations, chain = [cite(label) for label in honest], honest[:2]
        alone, both = reasons(position(citations, chain=chain)), reasons(position([*citations, *copies], chain=chain))
        assert both == sorted([*alone, *["copied"] * len(set(copied))])


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(sorted(HEADLINES)), min_size=1, max_size=6))
def test_order_and_duplicates_change_nothing(draw: random.Random, labels: list[str]) -> None:
    shuffled = [cite(label) for label in [*labels, *labels]]
    draw.shuffle(shuffled)
    assert reasons(position(shuffled)) == reasons(position([cite(label) for label in sorted(set(labels))]))


class TestResolution:
    @pytest.mark.parametrize(
        ("probability", "outcome", "earned"), [(0.7, 1.0, 16.0), (0.7, 0.0, -24.0), (0.5, 1.0, 0.0), (1.0, 1.0, 25.0)]
    )
    def test_skill_is_a_hundred_alpha(self, probability: float, outcome: float, earned: float) -> None:
        assert skill(Forecast(probability=probability, baseline=0.5), outcome) == pytest.approx(earned)

    @given(st.floats(0.02, 0.98), st.integers(0, 19), st.integers(0, 2**32))
    def test_no_strategy_without_information_is_expected_to_earn_more_than_abstaining(
        self, chance: float, strategy: int, seed: int
    ) -> None:
        """The baseline is right; twenty ways to answer a question of which nothing else is known."""
        draw = random.Random(seed)
        ways = [
            chance, 0.5, 0.0, 1.0, 1 - chance, chance / 2, (1 + chance) / 2, round(chance), 1 - round(chance),
            draw.random(), draw.choice([0.0, 1.0]), draw.gauss(chance, 0.05), draw.gauss(0.5, 0.1), chance**2,
            chance**0.5, min(chance, 0.5), max(chance, 0.5), chance + 0.02, chance - 0.02,
            draw.triangular(0, 1, chance),
        ]  # fmt: skip
        forecast = Forecast(probability=min(max(ways[strategy], 0.0), 1.0), baseline=chance)
        assert chance * skill(forecast, 1.0) + (1 - chance) * skill(forecast, 0.0) <= 1e-9


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


def test_what_is_published_of_exclusive_questions_is_one_together() -> None:
    asked = tuple(question(label, event="E", baseline=each) for label, each in (("Q1", 0.5), ("Q2", 0.3), ("Q4", 0.2)))
    held = [
        position([], voice=voice, label=one.label, probability=probability)
        for voice, given_chances in (("a", (0.7, 0.2, 0.1)), ("b", (0.1, 0.1, 0.8)))
        for one, probability in zip(asked, given_chances, strict=True)
    ]
    found = aggregate(held, Board(asked, (), 9, BOARD.day), 1, EQUAL, FACTIONS)
    assert sum(one.probability for one in found) == pytest.approx(1)
    pools = [pooled({"a": a, "b": b}, EQUAL) for a, b in ((0.7, 0.1), (0.2, 0.1), (0.1, 0.8))]
    assert [one.probability for one in found] == pytest.approx([one / sum(pools) for one in pools])


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


def rounds(blind: list[float], informed: list[float]) -> list[VoicePosition]:
    made = [answer(f"v{at}", 1, "", one) for at, one in enumerate(blind)]
    return made + [answer(f"v{at}", 2, "", one) for at, one in enumerate(informed)]


class TestHerding:
    def test_the_spread_is_that_of_log_odds(self) -> None:
        found = herding(rounds([0.2, 0.8], [0.4, 0.6]), None)
        assert found.blind == pytest.approx(math.log(4))
        assert found.informed == pytest.approx(math.log(1.5))
        assert found.left == pytest.approx(math.log(1.5) / math.log(4))

    @pytest.mark.parametrize(
        ("informed", "gain", "alarm"),
        [
            ([0.45, 0.55], known_estimate(-0.1, 0.01, 30, 99, 40, 40, 50), True),
            ([0.45, 0.55], known_estimate(0.1, 0.01, 30, 99, 40, 40, 50), False),
            ([0.45, 0.55], known_estimate(-0.1, 0.1, 30, 99, 40, 40, 50), None),
            ([0.45, 0.55], Estimate(-0.1, 9, 9, 9, lack=TOO_FEW), None),
            ([0.25, 0.75], known_estimate(-0.1, 0.01, 30, 99, 40, 40, 50), False),
            ([0.2, 0.8], None, False),
        ],
    )
    def test_an_alarm_needs_half_of_the_spread_gone_and_a_loss_told_from_zero(
        self, informed: list[float], gain: Estimate | None, alarm: bool | None
    ) -> None:
        assert herding(rounds([0.2, 0.8], informed), gain).alarm is alarm

    def test_voices_that_agree_from_the_start_do_not_herd(self) -> None:
        found = herding(rounds([0.5, 0.5], [0.5, 0.5]), known_estimate(-1.0, 0.1, 30, 99, 40, 40, 50))
        assert (found.left, found.alarm) == (None, False)


def test_one_voice_or_one_round_has_no_spread() -> None:
    assert herding(rounds([0.2], [0.4]), None).blind is None
    assert herding(rounds([0.2, 0.8], []), None).left is None
