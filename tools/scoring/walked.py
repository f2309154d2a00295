"""Probabilities of judgements that state none, such as a lens's hit or a BUY: from their own record up to that day.

Each is scored by what its label turned out to be worth before: h hits of n, drawn to the baseline q by PRIOR imagined
questions, (h + PRIOR q) / (n + PRIOR). Nothing later than the judgement enters, so the score is out of sample, and a
label without a record is worth the baseline and earns nothing.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from chordesk.tools.scoring.errors import DatedMean
from chordesk.tools.scoring.summary import CODE, ScoredForecast, mean_of

PRIOR = 30.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judgement without a probability on a resolved question. label: what it was, such as BUY high; the rest as in
    ScoredForecast."""

    source: str
    label: str
    question: str
    at: dt.datetime
    known: dt.datetime
    baseline: float
    outcome: float
    author: str = CODE
    run: str = ""


@dataclass(slots=True)
class _Record:
    hits: float = 0.0
    n: int = 0
    seen: set[str] = field(default_factory=set)

    def add(self, one: Judgement) -> None:
        """Count a question once, however often it was judged alike."""
        if one.question not in self.seen:
            self.seen.add(one.question)
            self.hits += one.outcome
            self.n += 1

    def worth(self, baseline: float) -> float:
        return min(1.0, (self.hits + PRIOR * baseline) / (self.n + PRIOR))


def walked(judgements: Iterable[Judgement]) -> list[ScoredForecast]:
    """Return each judgement as a forecast by the record of its source and label before it, in the order of time."""
    records: dict[tuple[str, str], _Record] = defaultdict(_Record)
    waiting: list[tuple[dt.datetime, int, Judgement]] = []
    found = []
    for place, one in enumerate(sorted(judgements, key=lambda one: one.at)):
        while waiting and waiting[0][0] <= one.at:
            known = heapq.heappop(waiting)[2]
            records[known.source, known.label].add(known)
        record = records[one.source, one.label]
        found.append(_forecast(one, record.worth(one.baseline), record.n))
        heapq.heappush(waiting, (one.known, place, one))
    return found


def rates(judgements: Iterable[Judgement]) -> dict[str, DatedMean]:
    """Return by label the share of questions that came true, with its error by date, in the order of the labels."""
    grouped: dict[str, list[ScoredForecast]] = defaultdict(list)
    for one in judgements:
        grouped[one.label].append(_forecast(one, one.baseline, 0))
    means = {label: mean_of(group, lambda one: one.outcome) for label, group in sorted(grouped.items())}
    return {label: mean for label, mean in means.items() if mean is not None}


def _forecast(one: Judgement, probability: float, evidence: int) -> ScoredForecast:
    return ScoredForecast(
        one.source,
        one.question,
        one.at,
        one.known,
        probability,
        one.baseline,
        one.outcome,
        one.author,
        one.run,
        label=one.label,
        evidence=evidence,
    )
