"""How often names beat the median of their universe afterwards, by what was claimed of them."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from chordesk.tools.backtests.closes import CloseTable
from chordesk.tools.scoring.errors import dated_mean
from chordesk.tools.scoring.wilson import wilson

QUESTION = "beats the universe's median over the next {sessions} sessions"


@dataclass(frozen=True, slots=True)
class Claim:
    """A name on a day, and the group that it belongs to: a rating, a role's stance or a lens."""

    group: str
    symbol: str
    day: dt.date


@dataclass(frozen=True, slots=True)
class HitRate:
    """One group. n: claims with an outcome, on so many dates; open: claims without one yet; low, high: Wilson's 95 %
    bounds as if claims were independent; error: standard error by date, which is the honest one, None on one date."""

    group: str
    n: int
    dates: int
    hits: int
    open: int
    share: float | None
    low: float | None
    high: float | None
    error: float | None


def hit_rates(claims: Iterable[Claim], closes: CloseTable, sessions: int) -> list[HitRate]:
    """Return a row for each group, by name."""
    grouped: dict[str, list[tuple[dt.date, float | None]]] = defaultdict(list)
    for claim in claims:
        grouped[claim.group].append((claim.day, closes.outcome(claim.symbol, claim.day, sessions)))
    return [_row(group, found) for group, found in sorted(grouped.items())]


def _row(group: str, found: list[tuple[dt.date, float | None]]) -> HitRate:
    known = [(day, outcome) for day, outcome in found if outcome is not None]
    hits, mean = round(sum(outcome for _, outcome in known)), dated_mean(known)
    bounds = wilson(hits, len(known))
    return HitRate(
        group=group,
        n=len(known),
        dates=mean.dates if mean else 0,
        hits=hits,
        open=len(found) - len(known),
        share=hits / len(known) if known else None,
        low=bounds.low if bounds else None,
        high=bounds.high if bounds else None,
        error=mean.error if mean else None,
    )
