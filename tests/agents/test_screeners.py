"""Shards, acceptance and ranking."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.roles import WEIGHTS, Hit, RankedCandidate, accept, rank, shards
from chordesk.agents.subjects import screener_subject
from chordesk.models.answers import Instrument, ScreenCandidate, ScreenConfidence, ScreenOutput
from chordesk.models.settings import LENSES, Settings

HIGH, MEDIUM, SPECULATIVE = ScreenConfidence.HIGH, ScreenConfidence.MEDIUM, ScreenConfidence.SPECULATIVE
EQUITY, ETF, OPTION = Instrument.EQUITY, Instrument.ETF, Instrument.OPTION


def hit(symbol: str, lens: str, confidence: ScreenConfidence = MEDIUM, instrument: Instrument = EQUITY) -> Hit:
    return Hit(f"{symbol}-{lens}-{confidence}", lens, symbol, instrument, confidence, f"{lens} on {symbol}")


def order(hits: list[Hit], cap: int = 100) -> list[str]:
    return [candidate.symbol for candidate in rank(hits, cap)]


hits_strategy = st.lists(
    st.builds(
        Hit,
        id=st.uuids().map(str),
        lens=st.sampled_from(LENSES),
        symbol=st.sampled_from(["A", "B", "C", "D", "E", "F"]),
        instrument=st.sampled_from(Instrument),
        confidence=st.sampled_from(ScreenConfidence),
        thesis=st.just("t"),
    ),
    max_size=30,
)


@given(hits_strategy, st.randoms(use_true_random=False), st.integers(0, 8))
def test_the_order_of_hits_changes_nothing(hits: list[Hit], random: Any, cap: int) -> None:
    shuffled = list(hits)
    random.shuffle(shuffled)
    assert rank(shuffled, cap) == rank(hits, cap)


@given(hits_strategy, st.integers(0, 8))
def test_each_symbol_once_best_first_up_to_the_cap(hits: list[Hit], cap: int) -> None:
    ranked = rank(hits, cap)
    symbols = {one.symbol for one in hits}
    assert len(ranked) == min(cap, len(symbols))
    assert len({candidate.symbol for candidate in ranked}) == len(ranked)
    assert [candidate.rank for candidate in ranked] == list(range(1, len(ranked) + 1))
    keys = [(-candidate.score, candidate.symbol) for candidate in ranked]
    assert keys == sorted(keys)
    assert ranked == rank(hits, 100)[:cap]


@given(hits_strategy)
def test_every_hit_is_behind_its_candidate(hits: list[Hit]) -> None:
    ranked = rank(hits, 100)
    assert sorted(one.id for candidate in ranked for one in candidate.hits) == sorted(one.id for one in hits)
    for candidate in ranked:
        assert {one.symbol for one in candidate.hits} == {candidate.symbol}
        assert set(candidate.lenses) == {one.lens for one in candidate.hits}
        assert WEIGHTS[candidate.confidence] == max(WEIGHTS[one.confidence] for one in candidate.hits)


@given(hits_strategy, hits_strategy)
def test_a_further_hit_never_lowers_a_score(hits: list[Hit], more: list[Hit]) -> None:
    before = {candidate.symbol: candidate.score for candidate in rank(hits, 100)}
    after = {candidate.symbol: candidate.score for candidate in rank([*hits, *more], 100)}
    assert all(after[symbol] >= score for symbol, score in before.items())


def test_more_lenses_and_more_confidence_rank_higher() -> None:
    hits = [hit("A", "technical", SPECULATIVE), hit("B", "technical", MEDIUM), hit("C", "technical", HIGH)]
    assert order(hits) == ["C", "B", "A"]
    assert order([*hits, hit("B", "options", SPECULATIVE)]) == ["B", "C", "A"]
    assert order([hit("A", lens, SPECULATIVE) for lens in LENSES[:2]] + [hit("B", "options", MEDIUM)]) == ["A", "B"]


def test_a_lens_counts_once_with_its_best_hit() -> None:
    twice = [hit("A", "technical", SPECULATIVE), hit("A", "technical", HIGH)]
    assert [candidate.score for candidate in rank(twice, 9)] == [1.0]


def test_ties_are_broken_by_symbol() -> None:
    assert order([hit("B", "technical"), hit("A", "technical")]) == ["A", "B"]
    mixed = [hit("B", "technical", HIGH), hit("B", "options", SPECULATIVE)]
    assert order([*mixed, hit("A", "technical"), hit("A", "catalyst")]) == ["A", "B"]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ([OPTION], OPTION),
        ([OPTION, EQUITY], EQUITY),
        ([OPTION, ETF], ETF),
        ([OPTION, OPTION, EQUITY], OPTION),
        ([ETF, EQUITY], EQUITY),
    ],
)
def test_the_instrument_is_what_most_lenses_name(named: list[Instrument], expected: Instrument) -> None:
    hits = [hit("A", lens, MEDIUM, instrument) for lens, instrument in zip(LENSES, named, strict=False)]
    assert rank(hits, 1)[0].instrument is expected


def test_no_hits_and_no_room() -> None:
    assert rank([], 5) == []
    assert rank([hit("A", "technical")], 0) == []
    only: RankedCandidate = rank([hit("A", "technical")], 5)[0]
    assert (only.rank, only.score, only.lenses) == (1, 0.7, ("technical",))


@given(st.lists(st.text(alphabet="ABC", min_size=1, max_size=4), max_size=400), st.integers(1, 150))
def test_shards_keep_every_symbol_in_order(symbols: list[str], size: int) -> None:
    cut = shards(symbols, size)
    assert [symbol for shard in cut for symbol in shard] == symbols
    assert len(cut) == -(-len(symbols) // size)
    lengths = [len(shard) for shard in cut]
    assert not lengths or (max(lengths) <= size and max(lengths) - min(lengths) <= 1 and min(lengths) > 0)


def test_the_default_shards_of_the_universe() -> None:
    assert [len(shard) for shard in shards([str(number) for number in range(524)], 131)] == [131] * 4
    with pytest.raises(ValueError, match="shard size 0"):
        shards(["A"], 0)


def named(symbol: str, instrument: Instrument = EQUITY) -> ScreenCandidate:
    return ScreenCandidate(symbol=symbol, instrument=instrument, confidence=MEDIUM, thesis="t")


def test_acceptance_drops_what_may_not_be_and_reports_it() -> None:
    output = ScreenOutput(candidates=[named(" aa "), named("ZZ"), named("AA"), named("BB", OPTION), named("CC")])
    kept, notes = accept(output, "technical", ["AA", "BB", "CC"], options_allowed=False)
    assert [candidate.symbol for candidate in kept] == ["AA", "CC"]
    assert len(notes) == 3
    assert any("ZZ is not in its shard" in note for note in notes)
    assert any("AA was named twice" in note for note in notes)
    assert any("BB was named as an option" in note for note in notes)
    allowed, _ = accept(output, "technical", ["AA", "BB", "CC"], options_allowed=True)
    assert [candidate.symbol for candidate in allowed] == ["AA", "BB", "CC"]


def test_the_subject_of_a_screener() -> None:
    subject = screener_subject("technical", 2, ("AA", "BB"), Settings(max_order_notional=5_000.0), capital=1_234.5)
    assert subject["lens"] == "technical"
    assert subject["shard"] == 2
    assert subject["symbols"] == ["AA", "BB"]
    assert subject["constraints"]["maxOrderNotional"] == 5_000.0
    assert subject["constraints"]["capital"] == 1_234.5
    assert subject["constraints"]["stockOnly"] is True
