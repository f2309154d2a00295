"""A market written on a tape: the far side of the market wire, with prices and a clock that a test sets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field

from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.market import Headline, Listing, Quote
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.protocol import Bars

OPENING, CLOSING = dt.time(9, 30), dt.time(16)


@dataclass
class TapeClock:
    """Real time, as a test sets it. Weekdays are sessions. `fails` makes every question about the session fail."""

    at: dt.datetime = dt.datetime(2010, 8, 12, 15, 55, tzinfo=NEW_YORK)
    fails: bool = False
    day: dt.date | None = None
    exchange: str = "XNYS"

    def now(self) -> dt.datetime:
        return self.at

    def is_open(self, exchange: str | None = None) -> bool:
        if self.fails:
            raise MarketError("no calendar")
        return self.at.weekday() < 5 and OPENING <= self.at.time() < CLOSING

    def session(self, exchange: str | None = None) -> dt.date:
        day = self.at.date()
        while day.weekday() >= 5:
            day -= dt.timedelta(days=1)
        return day

    def next_open(self, exchange: str | None = None) -> dt.datetime:
        day = self.at.replace(hour=9, minute=30, second=0)
        while day <= self.at or day.weekday() >= 5:
            day += dt.timedelta(days=1)
        return day


@dataclass
class Tape:
    """prices: the last quote; opens: what an order placed now fills at, the quote where none is given, None for no
    price."""

    prices: dict[str, float]
    opens: dict[str, float | None] = field(default_factory=dict)
    clock: TapeClock = field(default_factory=TapeClock)
    name: str = "tape"
    quoted_at: dt.datetime | None = None
    on_fill: Callable[[], None] | None = None

    def universe(self, name: str) -> list[Listing]:
        return [Listing(symbol=symbol) for symbol in sorted(self.prices)]

    def listing(self, symbol: str) -> Listing:
        return Listing(symbol=symbol)

    def sessions(self, count: int) -> list[dt.date]:
        days = (self.clock.now().date() - dt.timedelta(days=back) for back in range(2 * count + 2))
        return [day for day in days if day.weekday() < 5][:count][::-1]

    def bars(self, symbol: str, sessions: int) -> Bars:
        raise NotConfigured("not available: configure bars")

    def quote(self, symbol: str) -> Quote:
        if symbol not in self.prices:
            raise MarketError(f"unknown symbol {symbol}")
        at = self.quoted_at or self.clock.now()
        return Quote(symbol=symbol, price=self.prices[symbol], at=at, source=self.name)

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        return []

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        raise NotConfigured("not available: configure sections")

    def fill_price(self, symbol: str) -> Quote | None:
        if self.on_fill is not None:
            self.on_fill()
        price = self.opens.get(symbol, self.quote(symbol).price)
        if price is None:
            return None
        return Quote(symbol=symbol, price=price, at=self.clock.now(), source=self.name)
