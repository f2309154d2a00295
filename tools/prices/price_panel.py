"""Closes and volumes of a whole universe as one table, built once a session: ranks, correlations, outcomes."""

from __future__ import annotations

import bisect
import datetime as dt
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np

from chordesk.models.errors import DeskError, MarketError
from chordesk.models.exchanges import days_a_year
from chordesk.tools.market.prices import lapse
from chordesk.tools.market.protocol import Bars, Floats, MarketData
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.prices.daily_bars import Budget, histories, last_move_like_a_split, prefetch
from chordesk.tools.registry import Gaps, ToolContext

PANEL_SESSIONS = 504
LEAST_COMPARED = 10  # names that a rank needs


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PricePanel:
    """Bars of a universe up to now: a row a symbol, a column a session, not a number where there is no bar."""

    days: tuple[dt.date, ...]
    place: Mapping[str, int]  # row by symbol
    close: Floats
    volume: Floats
    # why a symbol has no bar of the latest session, by symbol. Where prices are not adjusted, a row begins after the
    # last move as large as a split's.
    absent: Mapping[str, str]


def a_year_of(panel: PricePanel) -> int:
    """Return the sessions of a year of the exchange that a panel is of."""
    return days_a_year(next(iter(panel.place), ""))


class _Kept(NamedTuple):
    """A panel with the session that it is of, until so many seconds of the monotonic clock."""

    session: dt.date
    panel: PricePanel
    until: float


AWAY_SECONDS = 60.0  # for which a panel without what a source failed to give is good enough
_MOST_KEPT, _MOST_BYTES = 64, 128 << 20  # of all markets, the last used; a panel of 5,000 names has 40 MB
_KEPT: OrderedDict[tuple[ref[MarketData], tuple[str, ...]], _Kept] = OrderedDict()
_LOCKS: WeakKeyDictionary[MarketData, threading.Lock] = WeakKeyDictionary()
_LOCK = threading.Lock()


def panel_of(context: ToolContext, further: Sequence[str] = ()) -> PricePanel:
    """Return the panel of the desk's universe and further symbols. Raises the market's error if no symbol has a bar."""
    market = context.market
    members = resolve_universe(context.settings.universe, market)
    symbols = tuple(dict.fromkeys([*members, *further]))
    session = market.clock.session()
    # Who asks together waits for the first, so that a source is asked once.
    with _lock_of(market):
        key = ref(market), symbols
        kept = _KEPT.get(key)
        if kept is None or kept.session != session or kept.until < time.monotonic():
            panel, complete = _built(context, symbols)
            kept = _Kept(session, panel, math.inf if complete else time.monotonic() + AWAY_SECONDS)
        _keep(key, kept)
        return kept.panel


def _keep(key: tuple[ref[MarketData], tuple[str, ...]], newest: _Kept) -> None:
    with _LOCK:
        _KEPT[key] = newest
        _KEPT.move_to_end(key)
        size = sum(one.panel.close.nbytes + one.panel.volume.nbytes for one in _KEPT.values())
        while len(_KEPT) > _MOST_KEPT or (size > _MOST_BYTES and len(_KEPT) > 1):
            _, oldest = _KEPT.popitem(last=False)
            size -= oldest.panel.close.nbytes + oldest.panel.volume.nbytes


def _lock_of(market: MarketData) -> threading.Lock:
    with _LOCK:
        return _LOCKS.setdefault(market, threading.Lock())


def _built(context: ToolContext, symbols: Sequence[str]) -> tuple[PricePanel, bool]:
    """Return (the panel, whether no symbol is absent for a failure that may pass)."""
    market, budget = context.market, Budget(context)
    if not symbols:
        raise MarketError(f"the {market.name} market has no names")
    prefetch(context, symbols)
    days = tuple(market.sessions(PANEL_SESSIONS))
    ordinals = np.array([day.toordinal() for day in days])
    close, volume = (np.full((len(symbols), len(days)), np.nan) for _ in range(2))
    absent, failures = dict[str, str](), list[DeskError]()
    for row, symbol in enumerate(symbols):
        try:
            budget.spend()
            bars = market.bars(symbol, len(days))
        except DeskError as error:
            failures.append(error)
            absent[symbol] = str(error)
            continue
        if (why := lapse(bars.dates[-1], days[-1])) is not None:
            absent[symbol] = why
        _fill(bars, days, ordinals, close[row], volume[row])
    if len(failures) == len(symbols):
        raise next((error for error in failures if error.retryable), failures[0])
    for table in (close, volume):
        table.setflags(write=False)
    place = {symbol: row for row, symbol in enumerate(symbols)}
    return PricePanel(days, place, close, volume, absent), not any(error.retryable for error in failures)


def _fill(bars: Bars, days: Sequence[dt.date], ordinals: np.ndarray, close: Floats, volume: Floats) -> None:
    first = max(bisect.bisect_left(bars.dates, days[0]), 0 if bars.adjusted else last_move_like_a_split(bars) or 0)
    written = np.array([day.toordinal() for day in bars.dates[first:]], dtype=np.int64)
    columns = np.minimum(np.searchsorted(ordinals, written), len(days) - 1)
    known = ordinals[columns] == written  # a bar of a day that is not a session of the market is left out
    close[columns[known]] = bars.close[first:][known]
    volume[columns[known]] = bars.volume[first:][known]


@dataclass(frozen=True, slots=True)
class UniverseRank:
    """Where a figure stands in a universe."""

    value: float
    rank: int  # 1 is the highest
    of: int  # names that have the figure
    percentile: float  # 0 the lowest to 1 the highest, ties in the middle


def standing(values: Floats, row: int) -> UniverseRank | None:
    """Return where a row's figure stands; None where it has none, or fewer than LEAST_COMPARED rows have it."""
    value = values[row]
    known = values[np.isfinite(values)]
    if not np.isfinite(value) or len(known) < LEAST_COMPARED:
        return None
    above, below = int((known > value).sum()), int((known < value).sum())
    percentile = (below + (len(known) - above - below - 1) / 2) / (len(known) - 1)
    return UniverseRank(float(value), above + 1, len(known), percentile)


def change(values: Floats, sessions: int) -> Floats:
    """Return value / value n sessions before - 1, n rows x T, not a number where either is missing."""
    found = np.full(values.shape, np.nan)
    if values.shape[1] > sessions:
        found[:, sessions:] = values[:, sessions:] / values[:, :-sessions] - 1
    return found


def returns(panel: PricePanel, sessions: int) -> Floats:
    """Return close / close n sessions ago - 1 of each row, not a number where either is missing."""
    return np.asarray(change(panel.close, sessions)[:, -1], dtype=np.float64)


CORRELATION_SESSIONS = 60


def log_returns(tool: ToolContext, symbols: Sequence[str]) -> dict[str, Floats]:
    """The last 60 daily log returns; none where prices are not adjusted and moved as by a split."""
    found = {}
    for history in histories(tool, symbols, Gaps(), CORRELATION_SESSIONS + 1):
        if not history.bars.adjusted and last_move_like_a_split(history.bars) is not None:
            continue
        if len(history.run.close) > CORRELATION_SESSIONS:
            changes = np.diff(np.log(history.run.close[-CORRELATION_SESSIONS - 1 :]))
            if changes.std() > 0:
                found[history.symbol] = changes
    return found


def correlations(returns: Mapping[str, Floats], symbols: Sequence[str], unknown: float) -> Floats:
    """Return the n x n correlation of n symbols: 1 for a symbol with itself, `unknown` if one of a pair has no
    returns."""
    found = np.full((len(symbols), len(symbols)), unknown)
    known = [place for place, symbol in enumerate(symbols) if symbol in returns]
    if known:
        rows = np.array([returns[symbols[place]] for place in known])
        found[np.ix_(known, known)] = np.corrcoef(rows) if len(known) > 1 else 1.0
    same = np.array(symbols)
    found[same[:, None] == same[None, :]] = 1.0
    return found


def mean_of_pairs(correlation: Floats) -> float | None:
    """Return the mean of the correlations of different rows; None with fewer than two."""
    n = len(correlation)
    return float((correlation.sum() - np.trace(correlation)) / (n * (n - 1))) if n > 1 else None


def ledoit_wolf(rows: Floats) -> Floats:
    """Return the n x n covariance of n rows of T returns, shrunk toward equal variances without covariance by as much
    as the sample's own error asks for. Ledoit and Wolf, A well-conditioned estimator for large-dimensional covariance
    matrices, Journal of Multivariate Analysis 88 (2004), lemma 3.3; scikit-learn's LedoitWolf is the same."""
    n, count = rows.shape
    centred = rows - rows.mean(axis=1, keepdims=True)
    sample = centred @ centred.T / count
    level = np.trace(sample) / n
    target = level * np.eye(n)
    apart = float(((sample - target) ** 2).sum())
    error = float(((centred**2).sum(axis=0) ** 2).sum() / count - (sample**2).sum()) / count
    shrinkage = min(error / apart, 1.0) if apart > 0 else 0.0
    return np.asarray(shrinkage * target + (1 - shrinkage) * sample, dtype=np.float64)


def beta(of: Floats, market: Floats) -> float | None:
    """Return the slope of returns on the market's; None where the market did not move."""
    centred = market - market.mean()
    spread = float(centred @ centred)
    return float(centred @ of) / spread if spread > 0 else None


def universe_correlation(panel: PricePanel) -> float | None:
    """Return the mean correlation between all names of a panel that have 60 returns; None with fewer than two."""
    if len(panel.days) <= CORRELATION_SESSIONS:
        return None
    changes = np.diff(np.log(panel.close[:, -CORRELATION_SESSIONS - 1 :]), axis=1)
    spread = changes.std(axis=1)
    usable = np.isfinite(spread) & (spread > 0)
    n = int(usable.sum())
    if n < 2:
        return None
    scores = (changes[usable] - changes[usable].mean(axis=1, keepdims=True)) / spread[usable, None]
    # The sum over all pairs is the square of the sum of scores, so no n x n matrix is needed.
    together = float((scores.sum(axis=0) ** 2).sum() / CORRELATION_SESSIONS)
    return (together - n) / (n * (n - 1))


def beat_median(close: Floats, sessions: int) -> Floats:
    """Return 1 where a name's return over the next so many sessions is above the median of all, 0.5 where it equals it,
    else 0; not a number where it is not known. After its last close a name counts with that, held as cash: who left the
    market stays in the comparison."""
    outcome = np.full(close.shape, np.nan)
    if close.shape[1] <= sessions:
        return outcome
    rows, columns = np.arange(len(close)), np.arange(close.shape[1])
    last = np.where(np.isfinite(close), columns, 0).max(axis=1)
    worth = np.where(columns > last[:, None], close[rows, last][:, None], close)
    ahead = worth[:, sessions:] / close[:, :-sessions] - 1
    known = np.isfinite(ahead).any(axis=0)
    median = np.nanmedian(ahead[:, known], axis=0)
    outcome[:, :-sessions][:, known] = np.where(
        np.isnan(ahead[:, known]), np.nan, (1 + np.sign(ahead[:, known] - median)) / 2
    )
    return outcome
