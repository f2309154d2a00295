"""Invented figures are caught, and true ones left alone, on fixed corpora."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest

from tests.agents.grounding.corpus import MarkedSentence, Rates, rates, rates_of_samples, sentences, with_inventions

SEEDS = range(20)


def with_each_seed(marked: Sequence[MarkedSentence]) -> list[Rates]:
    """Return the counts of the sentences that got an invented figure, a seed each: the others are as they were."""
    return rates_of_samples([[row for row in with_inventions(marked, seed) if row.invented] for seed in SEEDS])


@pytest.mark.parametrize(("name", "count"), [("sentences.jsonl", 200), ("held_out.jsonl", 100)])
def test_invented_figures_are_caught_and_true_ones_are_not_flagged(name: str, count: int) -> None:
    marked = sentences(name)
    assert len(marked) == count
    misses: list[str] = []
    plain = rates(marked, misses)
    found = with_each_seed(marked)
    caught = sum(one.flagged for one in found) / sum(one.invented for one in found)
    spread = sorted(one.caught for one in found)
    print(
        f"{name}: {caught:.1%} of invented figures caught over {len(found)} seeds (least {spread[0]:.1%}, median "
        f"{statistics.median(spread):.1%}), {plain.alarms:.2%} of {plain.true} true figures flagged"
    )
    assert caught >= 0.95
    assert plain.alarms <= 0.01, misses


def test_figures_in_wordings_that_the_vocabulary_was_not_made_for_err_toward_no_source() -> None:
    """Idioms for which the vocabulary was not extended."""
    marked = sentences("unseen.jsonl")
    found = with_each_seed(marked)
    caught = sum(one.flagged for one in found) / sum(one.invented for one in found)
    plain = rates(marked)
    print(f"unseen.jsonl: {caught:.1%} caught, {plain.alarms:.1%} of {plain.true} true figures flagged")
    assert caught >= 0.87
    assert plain.alarms <= 0.08


@pytest.mark.parametrize(
    ("name", "least", "most"), [("idioms.jsonl", 0.82, 0.15), ("idioms_held_out.jsonl", 0.87, 0.26)]
)
def test_figures_in_analysts_idioms_mostly_keep_their_sources(name: str, least: float, most: float) -> None:
    """Sixty sentences each over answers of other symbols, of movers, a portfolio and a market's chain of 400 rows."""
    marked = sentences(name)
    assert len(marked) == 60
    found = with_each_seed(marked)
    caught = sum(one.flagged for one in found) / sum(one.invented for one in found)
    plain = rates(marked)
    print(f"{name}: {caught:.1%} caught, {plain.alarms:.1%} of {plain.true} true figures flagged")
    assert caught >= least
    assert plain.alarms <= most
