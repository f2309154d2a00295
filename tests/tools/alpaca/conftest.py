"""A live market of shares whose option chains are those of a loopback stand-in of Alpaca."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.market import Listing, OptionChain, Quote
from chordesk.models.settings import Settings
from chordesk.tools.market.alpaca_chains import FEEDS, AlpacaChains, AlpacaData
from tests.fakes.alpaca import KEY, SECRET, Alpaca, serving
from tests.patience import PATIENCE
from tests.tools.market.far_market import FarClock, FarMarket, NowClock, daily

APRIL, MAY = dt.date(2024, 4, 19), dt.date(2024, 5, 17)
KEYS = {"ALPACA_DATA_API_KEY": KEY, "ALPACA_DATA_SECRET_KEY": SECRET}


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


Connect = Callable[..., LiveMarket]


@pytest.fixture
def alpaca() -> Iterator[Alpaca]:
    with serving(Alpaca()) as running:
        yield running


@pytest.fixture
def connect(alpaca: Alpaca, tmp_path: Path) -> Connect:
    """A live market with the chains of the stand-in."""

    def make(chains: str = "alpaca", seconds: float = PATIENCE, **changes: Any) -> LiveMarket:
        environ = changes.pop("environ", KEYS)
        settings = Settings(home=tmp_path, market="yahoo", option_chains=chains)
        market = LiveMarket(**changes)
        wire = AlpacaData(alpaca.url, environ, FEEDS[chains], seconds)
        market.options = AlpacaChains(settings, market, wire)
        return market

    return make
