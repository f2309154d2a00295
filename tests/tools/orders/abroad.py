"""A tape with listings of other exchanges: currencies, rates between them, and which exchanges are open."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from chordesk.models.errors import MarketError
from chordesk.models.market import Listing
from chordesk.models.money import FxRate, parse_pair
from tests.tools.orders.tape import Tape, TapeClock


@dataclass
class PlacesClock(TapeClock):
    """closed: codes of exchanges that are closed, whatever the time."""

    closed: frozenset[str] = frozenset()

    def is_open(self, exchange: str | None = None) -> bool:
        return (exchange or self.exchange) not in self.closed and super().is_open()


@dataclass
class TapeAbroad(Tape):
    """rates: by pair the rate and from when on it was known, by default from now on. listings: where one is not as its
    symbol says."""

    clock: PlacesClock = field(default_factory=PlacesClock)
    rates: dict[str, tuple[float, dt.datetime | None]] = field(default_factory=dict)
    listings: dict[str, Listing] = field(default_factory=dict)

    def listing(self, symbol: str) -> Listing:
        return self.listings.get(symbol) or Listing(symbol=symbol)

    def rate(self, pair: str, at: dt.datetime | None = None) -> FxRate:
        if pair not in self.rates:
            raise MarketError(f"the tape has no rate of {pair}")
        rate, known = self.rates[pair]
        return FxRate(*parse_pair(pair), rate, known or at or self.clock.now(), "tape")
