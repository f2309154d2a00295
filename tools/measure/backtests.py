"""Backtests in numbers: the sessions visited, the account's marks, benchmarks, hit rates, and one sentence on them."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from chordesk.models.errors import MarketError
from chordesk.models.market import multiplier_of
from chordesk.models.tables.orders import Fill
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.prices import splits_since
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.prices.close_table import CloseTable
from chordesk.tools.scoring.inference import Estimate, Observation, estimate, share_bounds, told_apart


def volumes_of(market: MarketData, fills: Iterable[Fill]) -> dict[tuple[str, dt.date], float]:
    """Return the volume of each share on each day on which it filled, in shares of that day, as far as the market has
    it."""
    days: dict[str, set[dt.date]] = defaultdict(set)
    for fill in fills:
        if multiplier_of(fill.symbol) == 1:
            days[fill.symbol].add(day_of(fill.filled_at, fill.symbol))
    found = {}
    for symbol, wanted in days.items():
        try:
            bars = market.bars(symbol, (market.clock.session() - min(wanted)).days + 1)
        except MarketError:
            continue
        for day, volume in zip(bars.dates, bars.volume.tolist(), strict=True):
            if (at := dt.date.fromordinal(day.toordinal())) in wanted:
                found[symbol, at] = volume / splits_since(market, symbol, at)
    return found


def drawdown(values: Sequence[float | None]) -> float:
    high, deepest = 0.0, 0.0
    for value in values:
        if value is None:
            continue
        high = max(high, value)
        deepest = max(deepest, 1 - value / high) if high > 0 else deepest
    return deepest


QUESTION = "beats the universe's median over the next {sessions} sessions"


@dataclass(frozen=True, slots=True)
class Claim:
    """A name on a day, and the group that it belongs to: a rating, a role's stance or a lens."""

    group: str
    symbol: str
    day: dt.date


@dataclass(frozen=True, slots=True)
class HitRate:
    group: str
    n: int  # claims with an outcome, on so many dates
    dates: int
    hits: int
    open: int  # claims without one yet
    share: float | None = None
    effective: float | None = None  # independent claims with the same error
    # low, high: 95 % bounds of the share; None where the claims are too few
    low: float | None = None
    high: float | None = None
    told: bool = False  # whether the share is told from one half among all groups


def hit_rates(claims: Iterable[Claim], closes: CloseTable, sessions: int) -> list[HitRate]:
    place = {day: at for at, day in enumerate(closes.days)}
    known: dict[str, list[Observation]] = defaultdict(list)
    waiting: Counter[str] = Counter()
    for claim in claims:
        outcome = closes.outcome(claim.symbol, claim.day, sessions)
        if outcome is None:
            waiting[claim.group] += 1
        else:
            at = place[claim.day]
            known[claim.group].append(Observation(outcome - EVEN, at, at + sessions, claim.symbol))
    edges = {group: estimate(found) for group, found in known.items()}
    told = told_apart(edges)
    return [_row(group, edges.get(group), waiting[group], group in told) for group in sorted({*known, *waiting})]


EVEN = 0.5  # of the names beat the median


def _row(group: str, edge: Estimate | None, waiting: int, told: bool) -> HitRate:
    if edge is None:
        return HitRate(group, 0, 0, 0, waiting)
    rate = replace(edge, mean=edge.mean + EVEN)
    low, high = share_bounds(rate) or (None, None)
    hits = round(rate.mean * rate.n)
    return HitRate(group, rate.n, rate.dates, hits, waiting, rate.mean, rate.effective, low, high, told)
