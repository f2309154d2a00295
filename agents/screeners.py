"""Pure steps from a universe to candidates: its shards, the check of a lens's answer, and the ranking of hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from chordesk.agents.roles import UNIFIED
from chordesk.models.research import Instrument, ScreenCandidate, ScreenConfidence, ScreenOutput
from chordesk.models.settings import Settings

# What one lens adds to a symbol's score, in tenths so that sums are exact: two speculative lenses weigh more than one
# medium lens and less than one high lens.
WEIGHTS: Mapping[ScreenConfidence, int] = {
    ScreenConfidence.HIGH: 10,
    ScreenConfidence.MEDIUM: 7,
    ScreenConfidence.SPECULATIVE: 4,
}
# When lenses disagree on the instrument as often: the plainer one.
_PLAINNESS = {Instrument.EQUITY: 0, Instrument.ETF: 1, Instrument.OPTION: 2}


@dataclass(frozen=True, slots=True)
class Hit:
    """A symbol that one lens put forward. id: the row it is kept in."""

    id: str
    lens: str
    symbol: str
    instrument: Instrument
    confidence: ScreenConfidence
    thesis: str


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A symbol with all its hits. rank counts from 1; score is the sum of its lenses' weights, 1.0 a high one."""

    symbol: str
    instrument: Instrument
    confidence: ScreenConfidence
    rank: int
    score: float
    lenses: tuple[str, ...]
    hits: tuple[Hit, ...]


def lenses_of(settings: Settings) -> tuple[str, ...]:
    """Return the lenses of a screen: those of the settings, or the unified one in their place."""
    return (UNIFIED,) if settings.screener == "unified" else settings.lenses


def shards(symbols: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Return the universe in order, cut into the fewest shards of at most `size`, whose lengths differ by at most one.

    Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError(f"shard size {size}: must be at least 1")
    count = -(-len(symbols) // size)
    edges = [len(symbols) * place // count for place in range(count + 1)] if count else []
    return [tuple(symbols[start:end]) for start, end in pairwise(edges)]


def accept(
    output: ScreenOutput, lens: str, symbols: Iterable[str], *, options_allowed: bool
) -> tuple[list[ScreenCandidate], list[str]]:
    """Return the candidates that are in the shard, named once, and of an instrument that may be traded; and a note for
    each other one."""
    allowed = set(symbols)
    kept: dict[str, ScreenCandidate] = {}
    notes: list[str] = []
    for candidate in output.candidates:
        symbol = candidate.symbol.strip().upper()
        if symbol not in allowed:
            notes.append(f"{lens}: {symbol[:21]} is not in its shard and was dropped")
        elif symbol in kept:
            notes.append(f"{lens}: {symbol} was named twice; the first counts")
        elif candidate.instrument is Instrument.OPTION and not options_allowed:
            notes.append(f"{lens}: {symbol} was named as an option, which the constraints forbid, and was dropped")
        else:
            kept[symbol] = candidate.model_copy(update={"symbol": symbol})
    return list(kept.values()), notes


def rank(hits: Iterable[Hit], cap: int) -> list[RankedCandidate]:
    """Return one candidate a symbol, the best `cap` by score, then symbol.

    Each lens counts once, with its most confident hit. The order of the hits changes nothing.
    """
    by_symbol: dict[str, list[Hit]] = {}
    for hit in sorted(hits, key=lambda hit: (hit.symbol, hit.lens, -WEIGHTS[hit.confidence], hit.id)):
        by_symbol.setdefault(hit.symbol, []).append(hit)
    scored = sorted(
        ((_weight(group), group) for group in by_symbol.values()),
        key=lambda pair: (-pair[0], pair[1][0].symbol),
    )
    return [_candidate(group, place, weight) for place, (weight, group) in enumerate(scored[: max(cap, 0)], start=1)]


def _weight(group: Sequence[Hit]) -> int:
    best: dict[str, int] = {}
    for hit in group:
        best[hit.lens] = max(best.get(hit.lens, 0), WEIGHTS[hit.confidence])
    return sum(best.values())


def _candidate(group: Sequence[Hit], place: int, weight: int) -> RankedCandidate:
    return RankedCandidate(
        symbol=group[0].symbol,
        instrument=_instrument(group),
        confidence=max((hit.confidence for hit in group), key=WEIGHTS.__getitem__),
        rank=place,
        score=weight / 10,
        lenses=tuple(dict.fromkeys(hit.lens for hit in group)),
        hits=tuple(group),
    )


def _instrument(group: Sequence[Hit]) -> Instrument:
    named = Counter(hit.instrument for hit in group)
    return min(named, key=lambda instrument: (-named[instrument], _PLAINNESS[instrument]))
