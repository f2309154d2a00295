"""Backtests in numbers: the sessions visited, the account's marks, benchmarks, hit rates, and one sentence on them."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from chordesk.models.errors import MarketError, UsageError
from chordesk.models.market import multiplier_of
from chordesk.models.tables.orders import Fill
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.prices import splits_since, vanished
from chordesk.tools.market.protocol import Floats, MarketData, RecordedSessions
from chordesk.tools.scoring.inference import Estimate, Observation, estimate, share_bounds, told_apart

Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CloseTable:
    """Closes in account currency, days x symbols; not a number where a symbol did not trade on that day. pays: by
    symbol that has left the market, the share of its last close that its holders are paid."""

    days: Sequence[dt.date]
    symbols: Sequence[str]
    table: Floats
    pays: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def _rows(self) -> dict[dt.date, int]:
        return {day: at for at, day in enumerate(self.days)}

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {symbol: at for at, symbol in enumerate(self.symbols)}

    @cached_property
    def _last(self) -> Places:
        """Row of each symbol's last close, -1 without any."""
        rows = np.arange(len(self.table))[:, None]
        return np.asarray(np.where(np.isnan(self.table), -1, rows).max(axis=0, initial=-1), dtype=np.int64)

    @cached_property
    def _carried(self) -> Floats:
        filled = self.table.copy()
        for row in range(1, len(filled)):
            gaps = np.isnan(filled[row])
            filled[row, gaps] = filled[row - 1, gaps]
        for symbol, share in self.pays.items():
            column = self._columns[symbol]
            filled[self._last[column] + 1 :, column] *= share
        filled.setflags(write=False)
        return filled

    def carried(self) -> Floats:
        """Return what a share of each symbol is worth on each day: its close, else the close before; after the last
        one of a symbol that has left the market what was paid for it, held as cash. Not a number before the first."""
        return self._carried

    def at(self, days: Sequence[dt.date]) -> CloseTable:
        """Return the worth on some of the days, none after a symbol's last close. What a symbol that has left the
        market paid stands once, on the first of the days after its last close."""
        places = np.array([self._rows[day] for day in days], dtype=np.int64)
        first_after = np.searchsorted(places, self._last, side="right")
        left = np.array([symbol in self.pays for symbol in self.symbols], dtype=np.int64)
        seen = np.arange(len(places))[:, None] < first_after + left
        return CloseTable(days, self.symbols, np.where(seen, self._carried[places], np.nan))

    def until(self, row: int) -> CloseTable:
        """Return the days up to a row. A name that leaves the market later has not left it in these."""
        left = {symbol: share for symbol, share in self.pays.items() if self._last[self._columns[symbol]] <= row}
        return CloseTable(self.days[: row + 1], self.symbols, self.table[: row + 1], left)

    def listed(self, row: int) -> Mask:
        """Return which symbols have a close by the day of a row, and one on it or later."""
        return np.asarray(np.isfinite(self._carried[row]) & (self._last >= row), dtype=np.bool_)

    def outcome(self, symbol: str, day: dt.date, sessions: int) -> float | None:
        """Return 1 where the symbol beat the median return of the universe over the next so many sessions, one half
        where it equals it, else 0, so that the outcomes of a universe without ties average one half. The universe is
        what was listed on the day; a name that leaves the market counts with what its last close paid, held as cash.
        None where the data end earlier, or have no close of the symbol by the day."""
        start, column = self._rows.get(day), self._columns.get(symbol)
        if start is None or column is None or start + sessions >= len(self.days):
            return None
        listed = self.listed(start)
        universe = self._carried[start + sessions, listed] / self._carried[start, listed] - 1
        if np.isnan(self._carried[start, column]) or not len(universe):
            return None
        own = 0.0  # of a name that had left by then: cash
        if listed[column]:
            own = float(self._carried[start + sessions, column] / self._carried[start, column]) - 1
        return float((1 + np.sign(own - np.median(universe))) / 2)


def closes_of(
    market: MarketData, symbols: Sequence[str], days: Sequence[dt.date], delisted_pays: float = 1.0
) -> CloseTable:
    """delisted_pays: share of its last close that a name pays which has left the market by its clock."""
    table = np.full((len(days), len(symbols)), np.nan)
    rows = {day.toordinal(): row for row, day in enumerate(days)}
    span = (days[-1] - days[0]).days + (market.clock.session() - days[-1]).days + 1
    for column, symbol in enumerate(symbols):
        try:
            bars = market.bars(symbol, span)
        except MarketError:
            continue
        for day, close in zip(bars.dates, bars.close.tolist(), strict=True):
            if (row := rows.get(day.toordinal())) is not None:
                table[row, column] = close
    pays = {symbol: delisted_pays for symbol in symbols if vanished(market, symbol) is not None}
    return CloseTable(days, symbols, table, pays)


def volumes_of(market: MarketData, fills: Iterable[Fill]) -> dict[tuple[str, dt.date], float]:
    """Return the volume of each share on each day on which it filled, in shares of that day, as far as the market has
    it."""
    days: dict[str, set[dt.date]] = defaultdict(set)
    for fill in fills:
        if multiplier_of(fill.symbol) == 1:
            days[fill.symbol].add(exchange_day(fill.filled_at))
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


def buy_and_hold(closes: CloseTable, capital: float) -> list[float]:
    """Return the value on each day of a purchase at equal weight at the first day's close. A name that stops trading
    stays at its last close, or what that paid; one without a close on the first day is not bought."""
    filled = closes.carried()
    bought = np.isfinite(filled[0])
    if not bought.any():
        return [capital] * len(closes.days)
    growth = filled[:, bought] / filled[0, bought]
    return [float(capital * value) for value in growth.mean(axis=1)]


def equal_weight(closes: CloseTable, capital: float) -> list[float]:
    """Return the value on each day of holding every name at the same weight, restored at each close. A name counts
    from one day to the next when it has a close by both; it leaves with its last, or with what that paid."""
    filled = closes.at(closes.days).table
    values = [capital]
    for before, after in pairwise(filled):
        returns = after / before - 1
        known = returns[np.isfinite(returns)]
        values.append(values[-1] * (1 + (float(known.mean()) if len(known) else 0.0)))
    return values


def drawdown(values: Sequence[float | None]) -> float:
    high, deepest = 0.0, 0.0
    for value in values:
        if value is None:
            continue
        high = max(high, value)
        deepest = max(deepest, 1 - value / high) if high > 0 else deepest
    return deepest


def sessions_between(market: MarketData, first: dt.date, last: dt.date, every: int) -> list[dt.date]:
    """Return every so many-th session of the market's data from `first` to `last`, both included. Raises UsageError for
    a market of real time, days in the wrong order or outside the data, and a step below 1."""
    if market.clock.day is None or not isinstance(market, RecordedSessions):
        reason = f"the {market.name} market is in real time: it has no past day to stand on"
        raise UsageError(reason, remedy="start the desk with DESK_MARKET=replay, or DESK_MARKET=files and DESK_DATA")
    if every < 1:
        raise UsageError(f"--every {every} is no step", remedy="give 1 for each session, 5 for one a week")
    if first > last:
        raise UsageError(f"the first day {first} is after the last, {last}", remedy="give the earlier day first")
    known = market.recorded()
    for name, day in (("the first day", first), ("the last day", last)):
        if not known[0] <= day <= known[-1]:
            remedy = f"the data of the {market.name} market go from {known[0]} to {known[-1]}"
            raise UsageError(f"{name}, {day}, is outside the data", remedy=remedy)
    found = [day for day in known if first <= day <= last][::every]
    if not found:
        near = _near(known, first)
        raise UsageError(f"no session lies between {first} and {last}", remedy=f"the nearest of the data: {near}")
    return found


def later_session(market: MarketData, day: dt.date, count: int) -> dt.date:
    """Return the session so many after a session of the data, or the last one there is."""
    assert isinstance(market, RecordedSessions)
    known = list(market.recorded())
    return known[min(known.index(day) + count, len(known) - 1)]


def _near(known: Sequence[dt.date], day: dt.date) -> str:
    before = [one for one in known if one < day][-1:]
    after = [one for one in known if one > day][:1]
    return " and ".join(str(one) for one in (*before, *after))


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
