"""A live market of shares without options of its own, under a clock of real time that stands still."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from chordesk.models.contracts import OptionChain
from chordesk.models.market import Listing, Quote
from tests.tools.market.far_market import FarClock, FarMarket, NowClock, daily

APRIL, MAY = dt.date(2024, 4, 19), dt.date(2024, 5, 17)


@dataclass(eq=False)
class LiveMarket(FarMarket):
    clock: FarClock = field(default_factory=NowClock)
    price: float = 100.0
    yields: float | None = None
    options: Any = None
    listed: tuple[str, ...] = ("AAA", "BRK.B")

    def universe(self, name: str) -> list[Listing]:
        return [Listing(symbol=symbol) for symbol in self.listed]

    def bars(self, symbol: str, sessions: int) -> Any:
        return daily(symbol, [self.price] * 3)

    def quote(self, symbol: str) -> Quote:
        return Quote(symbol=symbol, price=self.price, at=self.clock.now(), source="far")

    def dividend_yield(self, symbol: str) -> float | None:
        return self.yields

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        found: OptionChain = self.options.chain(symbol, first, last)
        return found

    def option_quote(self, contract: str) -> Quote:
        found: Quote = self.options.option_quote(contract)
        return found
