"""Closes of a universe over sessions, as one table: what benchmarks and outcomes are counted from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chordesk.models.errors import MarketError
from chordesk.tools.market.protocol import Floats, MarketData


@dataclass(frozen=True, slots=True)
class CloseTable:
    """Closes in account currency, days x symbols; not a number where a symbol did not trade on that day."""

    days: Sequence[dt.date]
    symbols: Sequence[str]
    table: Floats

    def carried(self) -> Floats:
        """Return the table with each gap filled by the close before it; not a number before the first one."""
        filled = self.table.copy()
        for row in range(1, len(filled)):
            gaps = np.isnan(filled[row])
            filled[row, gaps] = filled[row - 1, gaps]
        return filled

    def outcome(self, symbol: str, day: dt.date, sessions: int) -> float | None:
        """Return 1 where the symbol beat the median return of the universe over the next so many sessions, 0 where it
        did not; None where the data end earlier, or the symbol has no close on either day."""
        if symbol not in self.symbols or day not in self.days:
            return None
        start = list(self.days).index(day)
        if start + sessions >= len(self.days):
            return None
        returns = self.table[start + sessions] / self.table[start] - 1
        own = returns[list(self.symbols).index(symbol)]
        known = returns[np.isfinite(returns)]
        return float(own > np.median(known)) if np.isfinite(own) else None


def closes_of(market: MarketData, symbols: Sequence[str], days: Sequence[dt.date]) -> CloseTable:
    """Return the closes of symbols on these days, none of them later than the market's."""
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
    return CloseTable(days, symbols, table)
