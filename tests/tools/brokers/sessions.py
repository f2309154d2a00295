"""A market of written sessions, for orders that rest: each has a day, open, high, low, close and volume."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

import numpy as np

from chordesk.models.errors import MarketError
from chordesk.models.market import Quote
from chordesk.tools.market.protocol import Bars
from tests.tools.orders.tape import NEW_YORK, Tape

Figures = tuple[float, float, float, float]
DAYS = [dt.date(2010, 8, day) for day in (12, 13, 16, 17, 18, 19, 20, 23, 24)]


@dataclass
class Sessions(Tape):
    """A replay at 15:55 of one of its days: bars up to that day, the next open as the fill price.

    rows: by symbol, the open, high, low and close of each of DAYS in turn.
    """

    rows: dict[str, list[Figures]] = field(default_factory=dict)
    volume: float = 1e9
    name: str = "sessions"

    def go(self, day: dt.date) -> None:
        self.clock.at = dt.datetime.combine(day, dt.time(15, 55), NEW_YORK)

    def _known(self, symbol: str) -> list[tuple[dt.date, Figures]]:
        today = self.clock.now().date()
        found = [pair for pair in zip(DAYS, self.rows.get(symbol, []), strict=False) if pair[0] <= today]
        if not found:
            raise MarketError(f"unknown symbol {symbol}")
        return found

    def bars(self, symbol: str, sessions: int) -> Bars:
        found = self._known(symbol)[-sessions:]
        columns = [np.array(column) for column in zip(*(figures for _, figures in found), strict=True)]
        return Bars(symbol, [day for day, _ in found], False, *columns, np.full(len(found), self.volume))

    def quote(self, symbol: str) -> Quote:
        price = self._known(symbol)[-1][1][3]
        return Quote(symbol=symbol, price=price, at=self.clock.now(), source=self.name)

    def fill_price(self, symbol: str) -> Quote | None:
        known = len(self._known(symbol))
        if known == len(self.rows[symbol]):
            return None
        at = dt.datetime.combine(DAYS[known], dt.time(9, 30), NEW_YORK)
        return Quote(symbol=symbol, price=self.rows[symbol][known][0], at=at, source=self.name)


FLAT: Figures = (100.0, 100.0, 100.0, 100.0)


def sessions(*rows: Figures, symbol: str = "AAA", volume: float = 1e9) -> Sessions:
    """A market on its first day, which is flat at 100; the rows are of the days after it."""
    return Sessions({}, rows={symbol: [FLAT, *rows]}, volume=volume)
