"""Markets beyond the wire: sources in memory with the answers of a test, under a clock of their own."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.market import Headline, Listing, Quote
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.market.protocol import Bars

TODAY = dt.date(2024, 3, 15)


def daily(symbol: str, close: Sequence[float], last: dt.date = TODAY, adjusted: bool = True) -> Bars:
    """Bars one calendar day apart that end on `last`; opens at the previous close, a volume of 100."""
    closes = np.array(close, dtype=float)
    opens = np.r_[closes[:1], closes[:-1]]
    dates = [last - dt.timedelta(days=back) for back in range(len(closes) - 1, -1, -1)]
    high, low = np.maximum(opens, closes), np.minimum(opens, closes)
    return Bars(symbol, dates, adjusted, opens, high, low, closes, np.full(len(closes), 100.0))


class FarClock:
    exchange = "XNYS"

    def __init__(self, day: dt.date = TODAY) -> None:
        self.day = day

    def now(self) -> dt.datetime:
        return dt.datetime.combine(self.day, dt.time(15, 55), NEW_YORK)

    def is_open(self, exchange: str | None = None) -> bool:
        return True

    def next_open(self, exchange: str | None = None) -> dt.datetime:
        return dt.datetime.combine(self.day + dt.timedelta(days=1), dt.time(9, 30), NEW_YORK)

    def session(self, exchange: str | None = None) -> dt.date:
        return self.day


class NowClock(FarClock):
    """A clock of real time that stands still on TODAY."""

    def __init__(self, at: dt.time = dt.time(15, 55), session: dt.date = TODAY) -> None:
        self.day = None  # type: ignore[assignment]
        self._now, self._session = dt.datetime.combine(TODAY, at, NEW_YORK), session

    def now(self) -> dt.datetime:
        return self._now

    def session(self, exchange: str | None = None) -> dt.date:
        return self._session

    def next_open(self, exchange: str | None = None) -> dt.datetime:
        return dt.datetime.combine(TODAY + dt.timedelta(days=3), dt.time(9, 30), NEW_YORK)


class StillClock(LiveClock):
    """A clock of real time at an exchange, with its own sessions, that stands still."""

    def __init__(self, exchange: str, at: str) -> None:
        super().__init__(exchange)
        self._at = dt.datetime.fromisoformat(at)

    def now(self) -> dt.datetime:
        return self._at


@dataclass(eq=False)
class FarMarket:
    """histories: closes by symbol. trouble: what asking for a symbol raises. before: called at each question."""

    histories: Mapping[str, Bars] = field(default_factory=dict)
    news: Mapping[str, Sequence[Headline]] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, dict[str, float | str | None]]] = field(default_factory=dict)
    trouble: Mapping[str, BaseException] = field(default_factory=dict)
    before: Callable[[str], None] | None = None
    name: str = "far"
    clock: FarClock = field(default_factory=FarClock)

    def _ask(self, symbol: str) -> None:
        if self.before is not None:
            self.before(symbol)
        if symbol in self.trouble:
            raise self.trouble[symbol]

    def universe(self, name: str) -> list[Listing]:
        return [Listing(symbol=symbol) for symbol in self.histories]

    def listing(self, symbol: str) -> Listing:
        self._ask(symbol)
        return Listing(symbol=symbol, name=f"{symbol} Inc.")

    def sessions(self, count: int) -> list[dt.date]:
        """Every calendar day is one."""
        return [self.clock.session() - dt.timedelta(days=back) for back in reversed(range(count))]

    def bars(self, symbol: str, sessions: int) -> Bars:
        self._ask(symbol)
        if symbol not in self.histories:
            raise MarketError(f"unknown symbol {symbol}")
        return self.histories[symbol]

    def quote(self, symbol: str) -> Quote:
        bars = self.bars(symbol, 1)
        return Quote(symbol=symbol, price=float(bars.close[-1]), at=self.clock.now(), source=self.name)

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        self._ask(symbol)
        return list(self.news.get(symbol, ()))

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        self._ask(symbol)
        if section not in self.sections:
            raise NotConfigured(f"not available: configure FAR for {section}")
        if symbol not in self.sections[section]:
            raise MarketError(f"no {section} of {symbol}")
        return self.sections[section][symbol]


def slow(seconds: float) -> Callable[[str], None]:
    return lambda symbol: time.sleep(seconds)
