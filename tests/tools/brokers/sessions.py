"""A market of written sessions, for orders that rest: each has a day, open, high, low, close and volume."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace

import numpy as np

from chordesk.models.errors import MarketError
from chordesk.models.market import Quote
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.protocol import Bars
from tests.tools.orders.tape import Tape

Figures = tuple[float, float, float, float]
DAYS = [dt.date(2010, 8, day) for day in (12, 13, 16, 17, 18, 19, 20, 23, 24)]


@dataclass
class Sessions(Tape):
    """A replay at 15:55 of one of its days, with bars up to that day.

    rows: by symbol, the open, high, low and close of each of DAYS in turn; volumes: of each of DAYS where they differ.
    """

    clock: ReplayClock = field(default_factory=lambda: ReplayClock(DAYS[0]))  # type: ignore[assignment]
    rows: dict[str, list[Figures]] = field(default_factory=dict)
    volume: float = 1e9
    volumes: list[float] = field(default_factory=list)
    name: str = "replay"

    def go(self, day: dt.date) -> None:
        self.clock = ReplayClock(day)

    def on(self, clock: ReplayClock) -> Sessions:
        return replace(self, clock=clock)

    def recorded(self) -> list[dt.date]:
        return DAYS

    def sessions(self, count: int) -> list[dt.date]:
        return [day for day in DAYS if day <= self.clock.session()][-count:]

    def _known(self, symbol: str) -> list[tuple[dt.date, Figures]]:
        today = self.clock.session()
        found = [pair for pair in zip(DAYS, self.rows.get(symbol, []), strict=False) if pair[0] <= today]
        if not found:
            raise MarketError(f"unknown symbol {symbol}")
        return found

    def bars(self, symbol: str, sessions: int) -> Bars:
        found = self._known(symbol)[-sessions:]
        columns = [np.array(column) for column in zip(*(figures for _, figures in found), strict=True)]
        days = [day for day, _ in found]
        volume = [self.volumes[DAYS.index(day)] if self.volumes else self.volume for day in days]
        return Bars(symbol, days, False, *columns, np.array(volume, dtype=np.float64))

    def quote(self, symbol: str) -> Quote:
        price = self._known(symbol)[-1][1][3]
        return Quote(symbol=symbol, price=price, at=self.clock.now(), source=self.name)


FLAT: Figures = (100.0, 100.0, 100.0, 100.0)


def sessions(*rows: Figures, symbol: str = "AAA", volume: float = 1e9) -> Sessions:
    """A market on its first day, which is flat at 100; the rows are of the days after it."""
    return Sessions({}, rows={symbol: [FLAT, *rows]}, volume=volume)
