"""The live market of Yahoo Finance through yfinance: delayed prices, headlines and company sections, cached."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from models.contracts import OptionChain, parse_contract
from models.errors import DeskError, MarketError, NotConfigured
from models.market import Listing, Quote
from models.settings import Settings
from tools.market.aged_cache import Kept
from tools.market.bars import STALE_DAYS, DailyBars
from tools.market.clock import NEW_YORK, LiveClock, exchange_day, exchange_hours
from tools.market.protocol import MarketClock
from tools.market.yahoo import shapes
from tools.market.yahoo.companies import YahooCompanies
from tools.market.yahoo.shapes import Section
from tools.market.yahoo.wire import YahooWire, require_installed

REPLAYS = False
BARS_AGE = dt.timedelta(minutes=15)
QUOTE_AGE = dt.timedelta(minutes=1)
OPTIONS_AGE = dt.timedelta(minutes=30)
_FETCHERS = 8
# The chain that is looked at is the first with so many days left: nearer ones are mostly noise.
_DAYS_TO_EXPIRY = 20
_CLOSE = dt.time(16, 0)


def build(settings: Settings, day: dt.date | None) -> YahooMarket:
    """Return Yahoo in real time, without a request. Raises NotConfigured when its extra is not installed."""
    require_installed()
    return build_yahoo(settings.home, LiveClock())


def build_yahoo(home: Path, clock: MarketClock, session: Any | None = None) -> YahooMarket:
    return YahooMarket(home, clock, YahooWire(home, session))


@cache
def _sp500() -> tuple[Listing, ...]:
    """Return the listings of the package's list by symbol, each with its sector."""
    lines = Path(__file__).with_name("sp500.txt").read_text(encoding="utf-8").splitlines()
    groups = (line.split(": ") for line in lines if not line.startswith("#"))
    found = [Listing(symbol=symbol, sector=sector) for sector, symbols in groups for symbol in symbols.split()]
    return tuple(sorted(found, key=lambda listing: listing.symbol))


class YahooMarket(YahooCompanies):
    """MarketData of Yahoo; also a FillSource with the last quote as fill price, and a source of what it knows of
    companies.

    Yahoo lists no universe: sp500 is the list in `sp500.txt`, which carries its date.
    """

    def universe(self, name: str) -> list[Listing]:
        if name != "sp500":
            raise MarketError(f"no universe named {name!r}; there is sp500")
        return list(_sp500())

    def sessions(self, count: int) -> Sequence[dt.date]:
        return exchange_hours().until(self.clock.session(), count)

    def bars(self, symbol: str, sessions: int) -> DailyBars:
        """Return bars up to the last closed session: today's bar is not one before the close."""
        kept = self._history(symbol, BARS_AGE).value
        dates = [dt.date.fromisoformat(day) for day in kept["date"]]
        end = sum(day <= self.clock.session() for day in dates)
        if end == 0:
            raise MarketError(f"unknown symbol {symbol}: Yahoo has no prices of it")
        rows = slice(max(end - sessions, 0), end)
        figures = (np.array(kept[name][rows]) for name in ("open", "high", "low", "close", "volume"))
        return DailyBars(symbol, dates[rows], True, *figures)

    def quote(self, symbol: str) -> Quote:
        """Return the newest price; within a session it is the one of the fetch, at most a minute and Yahoo's delay
        old."""
        kept = self._history(symbol, QUOTE_AGE)
        now = self.clock.now().astimezone(NEW_YORK)
        rows = zip(kept.value["date"], kept.value["close"], strict=True)
        day, price = max(((day, price) for day, price in rows if day <= str(now.date())), default=(None, None))
        if day is None or price is None:
            raise MarketError(f"unknown symbol {symbol}: Yahoo has no prices of it")
        last = dt.date.fromisoformat(day)
        if (now.date() - last).days > STALE_DAYS:
            raise MarketError(f"{symbol} has not traded since {last}")
        at = min(kept.at, dt.datetime.combine(last, _CLOSE, NEW_YORK), now).astimezone(NEW_YORK)
        return Quote(symbol=symbol, price=price, at=at, source=self.name)

    def section(self, symbol: str, section: str) -> Section:
        if section != "options":
            return super().section(symbol, section)
        found = self._options(symbol)
        if found is None:
            raise MarketError(f"Yahoo has no options of {symbol}")
        return found

    def fill_price(self, symbol: str) -> Quote | None:
        """Return the last quote. Raises MarketError when it is of a day before today's."""
        quote, today = self.quote(symbol), exchange_day(self.clock.now())
        if exchange_day(quote.at) < today:
            raise MarketError(f"{symbol} has not traded on {today}; its last price is of {exchange_day(quote.at)}")
        return quote

    def option_quote(self, contract: str) -> Quote:
        """Return the price midway between bid and ask, at the time of the fetch; the last trade where there are not
        both."""
        found = parse_contract(contract)
        if found is None:
            raise MarketError(f"{contract} is no OCC symbol of an option contract")
        expiry = found.expiry.isoformat()
        kept = self._contracts(found.underlying, expiry)
        rows = [row for row in kept.value if row["contract"] == contract]
        if any(row != rows[0] for row in rows):
            raise MarketError(f"Yahoo lists {contract} {len(rows)} times, with differing prices")
        priced = shapes.contract_price(rows[0]) if rows else None
        if priced is None:
            raise MarketError(f"unknown contract {contract}: Yahoo has no price of it")
        price, traded = priced
        offers = {name: rows[0][name] or None for name in ("bid", "ask")} if traded is None else {}
        at = kept.at if traded is None else dt.datetime.fromisoformat(traded)
        at = min(at, self.clock.now()).astimezone(NEW_YORK)
        return Quote.model_validate({"symbol": contract, "price": price, "at": at, "source": self.name, **offers})

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        """Return the contracts that Yahoo lists now. Raises NotConfigured under a clock that stands on a past day."""
        if self.clock.day is not None:
            raise NotConfigured("not available: Yahoo has the option chains of now alone, none of a past day")
        expiries: list[str] = self._cache.get(
            f"expiries-{symbol}", OPTIONS_AGE, lambda: list(self._wire.expiries(symbol))
        ).value
        if not expiries:
            raise MarketError(f"Yahoo has no options of {symbol}")
        wanted = [day for day in expiries if first.isoformat() <= day <= last.isoformat()]
        kept = [self._contracts(symbol, day) for day in wanted]
        listed = [(row, shapes.chain_row(row)) for one in kept for row in one.value]
        at = min((one.at for one in kept), default=self.clock.now()).astimezone(NEW_YORK)
        rows = tuple(row for _, row in listed if row is not None)
        unread = tuple(str(row["contract"]) for row, found in listed if found is None)
        return OptionChain(symbol, at, self.name, self.quote(symbol).price, rows, unread)

    def prefetch(self, symbols: Sequence[str], seconds: float) -> None:
        pool = concurrent.futures.ThreadPoolExecutor(_FETCHERS, thread_name_prefix="yahoo")
        try:
            concurrent.futures.wait([pool.submit(self._try_history, symbol) for symbol in symbols], seconds)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _try_history(self, symbol: str) -> None:
        with suppress(DeskError):
            self._history(symbol, BARS_AGE)

    def _history(self, symbol: str, age: dt.timedelta) -> Kept:
        return self._cache.get(f"bars-{symbol}", age, lambda: shapes.bars_of(self._wire.history(symbol)))

    def _options(self, symbol: str) -> Section | None:
        kept = self._cache.get(f"options-{symbol}", OPTIONS_AGE, lambda: self._fetch_options(symbol))
        found: Section | None = kept.value
        return found

    def _contracts(self, underlying: str, expiry: str) -> Kept:
        key = f"chain-{underlying}-{expiry}"
        return self._cache.get(key, QUOTE_AGE, lambda: self._fetch_contracts(underlying, expiry))

    def _fetch_contracts(self, underlying: str, expiry: str) -> list[Section]:
        if expiry not in self._wire.expiries(underlying):
            return []
        return shapes.contracts_of(*self._wire.chain(underlying, expiry))

    def _fetch_options(self, symbol: str) -> Section | None:
        expiries = self._wire.expiries(symbol)
        if not expiries:
            return None
        earliest = (self.clock.now() + dt.timedelta(days=_DAYS_TO_EXPIRY)).date().isoformat()
        expiry = next((day for day in expiries if day >= earliest), expiries[-1])
        calls, puts = self._wire.chain(symbol, expiry)
        return shapes.options_of(calls, puts, self.quote(symbol).price, expiry)
