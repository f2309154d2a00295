"""Daily bars of one symbol as arrays."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from chordesk.tools.market.protocol import Floats

# A name without a bar for more than this many days has left the market: its last price is no price now.
STALE_DAYS = 10


@dataclass(slots=True)
class DailyBars:
    """Bars in ascending order of session; every array is read-only and as long as `dates`."""

    symbol: str
    dates: Sequence[dt.date]
    adjusted: bool
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: Floats

    def __post_init__(self) -> None:
        for values in (self.open, self.high, self.low, self.close, self.volume):
            values.setflags(write=False)

    def __len__(self) -> int:
        return len(self.dates)

    def last(self, count: int) -> DailyBars:
        """Return the last bars, at most so many; itself when these are all."""
        if count >= len(self):
            return self
        rows = slice(len(self) - count, None)
        figures = (self.open, self.high, self.low, self.close, self.volume)
        return DailyBars(self.symbol, self.dates[rows], self.adjusted, *(values[rows] for values in figures))
