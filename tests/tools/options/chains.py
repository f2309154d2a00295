"""A market with written option chains: every quote as a test states it, under a clock that stands still."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chordesk.models.errors import MarketError
from chordesk.models.market import ChainRow, OptionChain, parse_contract
from chordesk.tools.market.option_pricing import Terms, price
from chordesk.tools.market.protocol import Bars
from tests.tools.charts.samples import apple
from tests.tools.market.far_market import TODAY, FarMarket, daily

APRIL, MAY = dt.date(2024, 4, 19), dt.date(2024, 5, 17)  # 35 and 63 days after TODAY


@dataclass(eq=False)
class ChainMarket(FarMarket):
    """rows: by symbol what the source lists. spots: by symbol."""

    rows: Mapping[str, Sequence[ChainRow]] = field(default_factory=dict)
    spots: Mapping[str, float] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    source: str = "far"
    dividend_yield: float | None = None
    quoted: dt.datetime | None = None

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        self._ask(symbol)
        if symbol not in self.rows:
            raise MarketError(f"the far market has no options of {symbol}")
        # A source may list what was not asked for: expired contracts are let through.
        rows = tuple(row for row in self.rows[symbol] if row.contract.expiry <= last)
        given = (self.unread, self.dividend_yield)
        return OptionChain(symbol, self.quoted or self.clock.now(), self.source, self.spots[symbol], rows, *given)


def row(name: str, bid: float | None, ask: float | None, **figures: Any) -> ChainRow:
    """One contract with a deep market, unless its figures differ."""
    contract = parse_contract(name)
    assert contract is not None, name
    return ChainRow(contract, bid, ask, **{"volume": 100.0, "open_interest": 1000.0, **figures})


def fair_chain(
    symbol: str = "AAA", spot: float = 100.0, volatility: float = 0.3, expiries: Sequence[dt.date] = (APRIL,)
) -> list[ChainRow]:
    """A chain of strikes five apart around the spot, quoted two per cent wide at one volatility, without interest."""
    rows = []
    for expiry in expiries:
        years = (expiry - TODAY).days / 365
        for strike in range(70, 135, 5):
            for kind, letter in (("put", "P"), ("call", "C")):
                worth = price(Terms(kind, spot, strike, years, 0.0), volatility)  # type: ignore[arg-type]
                name = f"{symbol}{expiry:%y%m%d}{letter}{strike * 1000:08d}"
                rows.append(row(name, worth * 0.99, worth * 1.01))
    return rows


def market(rows: Mapping[str, Sequence[ChainRow]] | None = None, **changes: Any) -> ChainMarket:
    """The fair chain of AAA at 100, unless rows are given."""
    listed = rows if rows is not None else {"AAA": fair_chain()}
    spots = changes.pop("spots", dict.fromkeys(listed, 100.0))
    return ChainMarket(rows=listed, spots=spots, **changes)


def known_bars(symbol: str) -> Bars:
    """Bars whose volatilities are known, one a day up to today."""
    bars = apple().last(273)
    dates = daily(symbol, np.ones(len(bars)).tolist()).dates
    columns = (bars.open, bars.high, bars.low, bars.close)
    return Bars(symbol, dates, True, *(column.copy() for column in columns), np.full(len(dates), 100.0))
