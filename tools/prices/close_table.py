"""Closes of names day by day, and what a universe bought from them came to: held, or kept at equal weight."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from chordesk.models.errors import MarketError
from chordesk.tools.market.prices import vanished
from chordesk.tools.market.protocol import Floats, MarketData

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
