"""Closes and volumes of a whole universe as one table, built once a session of a market."""

from __future__ import annotations

import bisect
import datetime as dt
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from chordesk.models.errors import DeskError
from chordesk.tools.harvest.context import HarvestContext
from chordesk.tools.history import Budget, last_move_like_a_split, prefetch
from chordesk.tools.market.protocol import Bars, Floats, MarketData
from chordesk.tools.market.sessions import lapse
from chordesk.tools.market.universe import resolve_universe

SESSIONS = 504
LEAST_COMPARED = 10  # names that a rank needs


@dataclass(frozen=True, slots=True, eq=False)
class PricePanel:
    """Bars of a universe up to now: a row a symbol, a column a session, not a number where there is no bar.

    place: row by symbol. absent: why a symbol has no bar of the latest session, by symbol. Where prices are not
    adjusted, a row begins after the last move as large as a split's.
    """

    days: tuple[dt.date, ...]
    place: Mapping[str, int]
    close: Floats
    volume: Floats
    absent: Mapping[str, str]


class _Kept(NamedTuple):
    """A panel with the session and symbols that it is of, until so many seconds of the monotonic clock."""

    session: dt.date
    symbols: tuple[str, ...]
    panel: PricePanel
    until: float


AWAY_SECONDS = 60.0  # for which a panel without what a source failed to give is good enough
_KEPT: WeakKeyDictionary[MarketData, _Kept] = WeakKeyDictionary()
_LOCKS: WeakKeyDictionary[MarketData, threading.Lock] = WeakKeyDictionary()
_LOCK = threading.Lock()


def panel_of(context: HarvestContext) -> PricePanel:
    """Return the panel of the desk's universe and the questions' symbols. Raises the market's own failure when it has
    no bar of any of them."""
    market = context.tool.market
    members = resolve_universe(context.tool.settings.universe, market)
    symbols = tuple(dict.fromkeys([*members, *context.symbols]))
    session = market.clock.session()
    # Harvesters start together: the first one builds what the others wait for, so that a source is asked once.
    with _lock_of(market):
        kept = _KEPT.get(market)
        if kept is None or (kept.session, kept.symbols) != (session, symbols) or kept.until < time.monotonic():
            panel, complete = _built(context, symbols)
            until = math.inf if complete else time.monotonic() + AWAY_SECONDS
            kept = _KEPT[market] = _Kept(session, symbols, panel, until)
        return kept.panel


def _lock_of(market: MarketData) -> threading.Lock:
    with _LOCK:
        return _LOCKS.setdefault(market, threading.Lock())


def _built(context: HarvestContext, symbols: Sequence[str]) -> tuple[PricePanel, bool]:
    """Return (the panel, whether no symbol is absent for a failure that may pass)."""
    market, budget = context.tool.market, Budget(context.tool)
    prefetch(context.tool, symbols)
    days = tuple(market.sessions(SESSIONS))
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
    known = ordinals[columns] == written  # a bar of a day that is no session of the market is left out
    close[columns[known]] = bars.close[first:][known]
    volume[columns[known]] = bars.volume[first:][known]


@dataclass(frozen=True, slots=True)
class UniverseRank:
    """Where a figure stands in a universe. rank: 1 is the highest; of: names that have the figure; percentile: 0 the
    lowest to 1 the highest, ties in the middle."""

    value: float
    rank: int
    of: int
    percentile: float


def standing(values: Floats, row: int) -> UniverseRank | None:
    """Return where a row's figure stands; None where it has none, or fewer than LEAST_COMPARED rows have it."""
    value = values[row]
    known = values[np.isfinite(values)]
    if not np.isfinite(value) or len(known) < LEAST_COMPARED:
        return None
    above, below = int((known > value).sum()), int((known < value).sum())
    percentile = (below + (len(known) - above - below - 1) / 2) / (len(known) - 1)
    return UniverseRank(float(value), above + 1, len(known), percentile)


def returns(panel: PricePanel, sessions: int) -> Floats:
    """Return close / close n sessions ago - 1 of each row, not a number where either is missing."""
    if panel.close.shape[1] <= sessions:
        return np.full(len(panel.close), np.nan)
    return np.asarray(panel.close[:, -1] / panel.close[:, -1 - sessions] - 1, dtype=np.float64)
