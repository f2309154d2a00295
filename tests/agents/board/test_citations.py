"""The decision on each citation: labels, state, question, figures, copies, repetitions."""

from __future__ import annotations

import random

import pytest

from chordesk.agents.board.citations import judge
from chordesk.models.board import CitedSignal
from tests.agents.board.citing.test_copying import DISAGREEMENT, LIGHT_EDIT, PADDING, PARAPHRASE, REORDERED, SYNONYMS
from tests.agents.board.kit import BOARD, DIVERGENCE, FUNDING, HEAT, HONEST, cite, position


def reason(citation: CitedSignal, label: str = "Q1") -> str | None:
    """Return why one citation does not count, None for one that does."""
    (found,) = judge(position([citation], label=label), BOARD)
    assert found.counts or found.reason
    return None if found.counts else found.reason


@pytest.mark.parametrize("label", ["funding-1", "portfolio-1", "factors-1", "temporal-1"])
def test_an_honest_claim_counts(label: str) -> None:
    assert reason(cite(label)) is None


@pytest.mark.parametrize(
    ("citation", "label", "why"),
    [
        (cite("momentum-7", "as momentum has it"), "Q1", "no such signal on this board"),
        (cite("events-1", "no event is near"), "Q1", "the signal is dormant"),
        (cite("arbitrage-1", "the venue is down"), "Q1", "the signal is offline"),
        (cite("divergence-1"), "Q1", "the signal does not concern Q1"),
        (cite("funding-1"), "Q2", "the signal does not concern Q2"),
        (cite("funding-1"), "Q9", "its question is not on this board"),
        (cite("funding-1", " \n"), "Q1", "the claim names nothing of the signal"),
        (cite("funding-1", "green ideas sleep furiously"), "Q1", "the claim names nothing of the signal"),
        (cite("funding-1", "shorts pay 0.15% now"), "Q1", "not in the signal's data: 0.15%"),
        (cite("funding-1", "funding of +0.015%"), "Q1", "not in the signal's data: +0.015%"),
        (cite("funding-1", "negative in 7 of 8 intervals"), "Q1", "not in the signal's data: 7"),
        (cite("portfolio-1", "heat of 34% and 13% of cash"), "Q1", "not in the signal's data: 13%"),
    ],
)
def test_a_citation_that_does_not_count_has_its_reason(citation: CitedSignal, label: str, why: str) -> None:
    assert reason(citation, label) == why


@pytest.mark.parametrize(
    "claim",
    [
        "funding of -0.015%",
        "funding at 0.02% against the shorts",
        "negative in 6 of 8 intervals, so bearish at 85% confidence",
        "funding alone will not bring $100k by the end of March",
        "the baseline of 50% is too low for a funding rate below zero",
        "I stand at 60% in spite of the funding",
        "three quarters of the intervals, funding-1 says, which is more than Q1 needs",
    ],
)
def test_figures_of_the_signal_the_question_and_the_forecast_have_a_source(claim: str) -> None:
    assert reason(cite("funding-1", claim)) is None


def test_a_difference_of_two_figures_of_the_data_has_a_source() -> None:
    claim = "ETH stands at 62% on one venue against 54% on the other, 8 points more"
    assert reason(cite("divergence-1", claim), "Q2") is None


@pytest.mark.parametrize("claim", [FUNDING, FUNDING.join(PADDING), REORDERED, LIGHT_EDIT])
@pytest.mark.parametrize("stance", ["build", "disagree", "quote"])
def test_a_copy_is_void_whatever_its_stance(claim: str, stance: str) -> None:
    (found,) = judge(
        position([CitedSignal.model_validate({"signal": "funding-1", "stance": stance, "claim": claim})]), BOARD
    )
    assert not found.counts
    assert found.quoted
    assert (found.reason or "").startswith("copied:")
    assert (found.copied or 0) >= 0.6


def test_a_claim_near_the_headline_counts_with_a_note() -> None:
    (found,) = judge(position([cite("funding-1", SYNONYMS)]), BOARD)
    assert found.counts
    assert found.reason == "near the headline: 0.44 of it"


@pytest.mark.parametrize("claim", [PARAPHRASE, DISAGREEMENT])
def test_a_claim_in_ones_own_language_counts_without_a_note(claim: str) -> None:
    (found,) = judge(position([cite("funding-1", claim, "disagree")]), BOARD)
    assert found.counts
    assert found.reason is None


def test_a_copy_with_another_fault_is_still_a_copy() -> None:
    (found,) = judge(position([cite("funding-1", f"{FUNDING} I add 77%.")]), BOARD)
    assert not found.counts
    assert found.quoted
    assert found.reason == "not in the signal's data: 77%"


def test_a_signal_counts_once_a_question() -> None:
    found = judge(position([cite("funding-1"), cite("funding-1", PARAPHRASE)]), BOARD)
    assert [one.counts for one in found].count(True) == 1
    assert [one.reason for one in found if not one.counts] == ["the signal is cited before on this question"]


def test_a_headline_in_parts_is_a_copy() -> None:
    half = FUNDING.index("Negative")
    found = judge(position([cite("funding-1", FUNDING[:half]), cite("funding-1", FUNDING[half:])]), BOARD)
    assert not any(one.counts for one in found)
    assert any(one.quoted for one in found)
    pieces = FUNDING.split()
    thirds = [" ".join(pieces[at : at + 8]) for at in range(0, len(pieces), 8)]
    found = judge(position([cite("funding-1", one) for one in thirds]), BOARD)
    assert not any(one.counts for one in found)
    assert any(one.quoted for one in found)


def test_one_sentence_has_to_name_each_signal_that_it_stands_for() -> None:
    nonsense = "As BTC combined with everything shows, the moon confirms it."
    found = judge(position([cite("funding-1", nonsense), cite("temporal-1", nonsense)]), BOARD)
    assert [one.reason for one in found] == ["the claim names nothing of the signal"] * 2
    synthesis = "BTC funding is against the shorts while the bounce loses volume."
    found = judge(position([cite("funding-1", synthesis), cite("temporal-1", synthesis)]), BOARD)
    assert all(one.counts for one in found)


def test_the_order_of_citations_changes_nothing() -> None:
    half = FUNDING.index("Negative")
    citations = [
        cite("funding-1"),
        cite("funding-1", PARAPHRASE, "disagree"),
        cite("funding-1", "shorts pay 9%"),
        cite("funding-1", FUNDING[:half]),
        cite("temporal-1"),
        cite("temporal-1", TEMPORAL_COPY),
        cite("portfolio-1", HEAT),
        cite("nothing-1", "nothing"),
    ]

    def decided(given: list[CitedSignal]) -> list[tuple[str, str, str, bool, str | None]]:
        return sorted(
            (one.cited.signal, one.cited.stance, one.cited.claim, one.counts, one.reason)
            for one in judge(position(given), BOARD)
        )

    first = decided(citations)
    draw = random.Random(7)
    for _ in range(30):
        draw.shuffle(citations)
        assert decided(citations) == first


TEMPORAL_COPY = "Weak bounce signal. BTC 4h momentum diverging from daily. Volume declining into bounce."


def test_an_honest_claim_of_each_tool_is_far_from_its_headline() -> None:
    found = judge(position([cite("divergence-1")], label="Q2"), BOARD)
    assert found[0].counts
    assert found[0].copied is not None
    assert found[0].copied < 0.4
    assert DIVERGENCE not in HONEST.values()
