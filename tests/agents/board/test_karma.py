"""Karma by the table: what each use of the board earns, and what no trick earns."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.agents.board.karma import MOST_COPIES, disagreements, last_positions, resolved
from chordesk.models.board import CitationStance, CitedSignal, KarmaReason, KarmaSum, SignalState, VoicePosition
from tests.agents.board.citing.test_copying import DISAGREEMENT, LIGHT_EDIT, PADDING, PARAPHRASE, REORDERED, SYNONYMS
from tests.agents.board.kit import (
    AUDIT,
    BOARD,
    FUNDING,
    HEAT,
    SIGNALS,
    TEMPORAL,
    booked,
    cite,
    earned,
    judged,
    position,
)
from tests.examples import examples

HEADLINES = {"funding-1": FUNDING, "portfolio-1": HEAT, "factors-1": AUDIT, "temporal-1": TEMPORAL}


def reasons(*positions: VoicePosition) -> list[str]:
    return sorted(one.reason for one in booked(*positions))


@pytest.mark.parametrize(
    ("labels", "amount", "reason"),
    [
        ([], -1.0, ["isolated"]),
        (["funding-1"], 0.0, ["own_tool"]),
        (["temporal-1"], 0.0, []),
        (["funding-1", "temporal-1"], 0.5, ["synthesis"]),
        (["portfolio-1", "temporal-1"], 0.5, ["synthesis"]),
        (["funding-1", "temporal-1", "factors-1"], 1.0, ["deep_synthesis"]),
        (["funding-1", "temporal-1", "factors-1", "portfolio-1"], 1.0, ["deep_synthesis"]),
    ],
)
def test_the_table_of_tools(labels: list[str], amount: float, reason: list[str]) -> None:
    answer = position([cite(label) for label in labels])
    assert earned(answer) == amount
    assert reasons(answer) == reason


@pytest.mark.parametrize(
    ("claim", "amount"),
    [
        (FUNDING, -1.5),
        (FUNDING.join(PADDING), -1.5),
        (REORDERED, -1.5),
        (LIGHT_EDIT, -1.5),
        (SYNONYMS, 0.0),
        (PARAPHRASE, 0.0),
        (DISAGREEMENT, 0.0),
        ("green ideas sleep furiously", -1.0),
        ("", -1.0),
    ],
)
def test_a_single_claim_on_the_own_tool_earns_by_its_kind(claim: str, amount: float) -> None:
    """A copy is isolated too, since its citation is void; nonsense is isolated alone."""
    answer = position([CitedSignal(signal="funding-1", stance="build", claim=claim)])
    assert earned(answer) == amount


def test_one_sentence_of_nonsense_earns_nothing() -> None:
    nonsense = "However, combined with funding, Kelly, audit and temporal edge, everyone is wrong and this confirms it."
    answer = position([cite(label, nonsense, "disagree") for label in ("nothing", "banana-1")], because=nonsense)
    assert reasons(answer) == ["isolated"]


def test_a_board_with_nothing_of_others_isolates_no_voice() -> None:
    alone = tuple(
        one if one.tool == "funding" else one.model_copy(update={"state": SignalState.OFFLINE}) for one in SIGNALS
    )
    board = replace(BOARD, signals=alone)
    assert booked(position(), board=board) == []
    assert earned(position([cite("funding-1")]), board=board) == 0.0
    elsewhere = replace(BOARD, questions=BOARD.questions[:1], signals=(SIGNALS[0], SIGNALS[1]))
    assert booked(position(), board=elsewhere) == []


def test_a_voice_without_an_answer_is_booked_nothing_and_an_empty_answer_is_isolated() -> None:
    from chordesk.agents.board.karma import conduct

    assert booked() == []
    assert [one.reason for one in conduct("mediator", "funding", [], [], BOARD, answered=True)] == ["isolated"]


def test_tools_count_over_both_rounds_and_questions_once() -> None:
    first = position([cite("funding-1"), cite("temporal-1")])
    second = position([cite("funding-1"), cite("temporal-1"), cite("factors-1")], number=2)
    assert earned(first) == 0.5
    assert earned(first, second) == 1.0
    other = position([cite("divergence-1")], label="Q2")
    assert earned(first, other) == 1.0
    assert len({one.key for one in booked(first, second, other)}) == len(booked(first, second, other))


class TestChain:
    def test_two_counting_signals_of_two_tools_that_move_the_forecast(self) -> None:
        answer = position([cite("funding-1"), cite("temporal-1")], chain=["funding-1", "temporal-1"], probability=0.52)
        assert reasons(answer) == ["chain", "synthesis"]

    @pytest.mark.parametrize("probability", [0.5, 0.519, 0.481])
    def test_none_without_a_move(self, probability: float) -> None:
        answer = position(
            [cite("funding-1"), cite("temporal-1")], chain=["funding-1", "temporal-1"], probability=probability
        )
        assert reasons(answer) == ["synthesis"]

    def test_none_with_a_void_part(self) -> None:
        answer = position([cite("funding-1"), cite("temporal-1", TEMPORAL)], chain=["funding-1", "temporal-1"])
        assert reasons(answer) == ["copied", "own_tool"]

    @pytest.mark.parametrize("chain", [["funding-1"], ["funding-1", "funding-1"], ["funding-1", "nothing-1"], []])
    def test_none_of_one_tool(self, chain: list[str]) -> None:
        answer = position([cite("funding-1"), cite("temporal-1")], chain=chain)
        assert reasons(answer) == ["synthesis"]

    def test_once_an_episode(self) -> None:
        chain, citations = ["funding-1", "temporal-1"], [cite("funding-1"), cite("temporal-1")]
        answers = [position(citations, chain=chain, number=number, probability=0.7) for number in (1, 2)]
        assert earned(*answers) == 1.5


class TestCopies:
    def test_a_signal_copied_on_many_questions_and_rounds_costs_once(self) -> None:
        answers = [position([cite("funding-1", FUNDING)] * 3, number=number) for number in (1, 2)]
        assert reasons(*answers) == ["copied", "isolated"]

    def test_the_cost_is_bounded(self) -> None:
        many = tuple(
            SIGNALS[1].model_copy(update={"label": f"funding-{number}", "id": f"id-{number}"}) for number in range(9)
        )
        board = replace(BOARD, signals=(*many, SIGNALS[2]))
        answer = position([cite(f"funding-{number}", FUNDING) for number in range(9)])
        assert earned(answer, board=board) == -1.0 - 0.5 * MOST_COPIES

    @settings(max_examples=examples(60), deadline=None)
    @given(st.data())
    def test_a_copy_more_never_raises_karma(self, data: st.DataObject) -> None:
        honest = data.draw(st.lists(st.sampled_from(sorted(HEADLINES)), max_size=4, unique=True))
        copied = data.draw(st.lists(st.sampled_from(sorted(HEADLINES)), min_size=1, max_size=4))
        dress = data.draw(st.sampled_from(["{}", "As I see it: {}", "{} {}", "'{}' is all there is to it"]))
        citations = [cite(label) for label in honest]
        copies = [cite(one, dress.replace("{}", HEADLINES[one]), "quote") for one in copied]
        chain = honest[:2]
        alone = earned(position(citations, chain=chain))
        assert earned(position([*citations, *copies], chain=chain)) < alone


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(sorted(HEADLINES)), min_size=1, max_size=6))
def test_order_and_duplicates_earn_nothing(draw: random.Random, labels: list[str]) -> None:
    citations = [cite(label) for label in labels]
    shuffled = [*citations, *citations]
    draw.shuffle(shuffled)
    assert earned(position(shuffled)) == earned(position([cite(label) for label in sorted(set(labels))]))


STANCES = st.sampled_from(["build", "disagree", "quote"])
CLAIMS = st.sampled_from([FUNDING, HEAT, AUDIT, TEMPORAL, SYNONYMS, PARAPHRASE, "", "nonsense", "a trend of 9%"])


@settings(max_examples=examples(80), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Q1", "Q2", "Q9"]),
            st.floats(0, 1),
            st.lists(st.tuples(st.sampled_from([*HEADLINES, "events-1", "no-1"]), STANCES, CLAIMS), max_size=5),
        ),
        max_size=4,
    )
)
def test_no_answer_earns_beyond_the_bounds(
    answers: list[tuple[str, float, list[tuple[str, CitationStance, str]]]],
) -> None:
    positions = [
        position(
            [CitedSignal(signal=label, stance=stance, claim=claim) for label, stance, claim in cited],
            label=asked,
            number=number % 2 + 1,
            probability=probability,
            chain=[label for label, _, _ in cited],
        )
        for number, (asked, probability, cited) in enumerate(answers)
    ]
    made = booked(*positions)
    assert -1.0 - 0.5 * MOST_COPIES <= sum(one.amount for one in made) <= 2.0
    assert len({one.key for one in made}) == len(made)


class TestResolution:
    @pytest.mark.parametrize(
        ("probability", "outcome", "skill"), [(0.7, 1.0, 16.0), (0.7, 0.0, -24.0), (0.5, 1.0, 0.0), (1.0, 1.0, 25.0)]
    )
    def test_skill_is_a_hundred_alpha(self, probability: float, outcome: float, skill: float) -> None:
        (found,) = resolved(position(probability=probability), outcome, 0.5, {}, key="run-9:Q1")
        assert found.amount == pytest.approx(skill)
        assert (found.ledger, found.reason) == (KarmaSum.SKILL, KarmaReason.ALPHA)

    @pytest.mark.parametrize(
        ("implied", "outcome", "books"),
        [
            ({"a": 0.9}, 0.0, True),
            ({"a": 0.9}, 1.0, False),
            ({"a": 0.4}, 0.0, False),
            ({"a": 0.1}, 1.0, True),
            ({"a": None}, 1.0, False),
            ({}, 1.0, False),
            ({"a": 0.9, "b": 0.8}, 0.0, True),
            ({"a": 0.9, "b": 0.1}, 1.0, False),
            ({"a": 0.9, "b": 0.1}, 0.0, False),
        ],
    )
    def test_a_disagreement_is_booked_once_when_it_beats_each_signal(
        self, implied: dict[str, float | None], outcome: float, books: bool
    ) -> None:
        found = resolved(position(probability=0.4), outcome, 0.5, implied, key="run-9:Q1")
        amounts = [one.amount for one in found if one.reason is KarmaReason.DISAGREED]
        assert amounts == ([0.5] if books else [])

    def test_both_rounds_have_the_same_keys(self) -> None:
        keys = [
            [one.key for one in resolved(position(number=number), 1.0, 0.5, {"a": 0.1}, key="run-9:Q1")]
            for number in (1, 2)
        ]
        assert keys[0] == keys[1]
        assert len(set(keys[0])) == 2

    def test_the_last_position_earns(self) -> None:
        first, second = position(probability=0.6), position(number=2, probability=0.7)
        assert last_positions([second, first]) == [second]

    def test_void_disagreements_are_none(self) -> None:
        answer = position([cite("funding-1", stance="disagree"), cite("temporal-1", TEMPORAL, "disagree")])
        assert disagreements(answer, judged(answer)) == ["funding-1"]
