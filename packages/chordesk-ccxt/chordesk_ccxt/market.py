"""The market of a venue of ccxt: daily and intraday candles, tickers, steps and least amounts, by public requests."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import ROUND_CEILING
from typing import Any, Literal

import numpy as np

from chordesk.plugins import (
    AgedCache,
    Bars,
    DeskError,
    FxRate,
    Headline,
    Intraday,
    Kept,
    Listing,
    LiveClock,
    MarketError,
    MarketUnavailable,
    NotConfigured,
    Quote,
    Settings,
    exact,
    exchange_hours,
    intraday_of,
    own_settings,
    parse_pair,
    stepped,
)

from .candles import Rows, daily, recent
from .settings import CcxtSettings
from .venue import Pair, Venue, VenueSilent

CRYPTO = "CRYPTO"
HISTORY = 700  # days that are fetched and kept: Kraken has 720, the one that goes on among them
BARS_AGE = dt.timedelta(hours=6)  # and never beyond midnight
QUOTE_AGE = dt.timedelta(seconds=20)
INTRADAY_AGE = dt.timedelta(minutes=2)
STALE = dt.timedelta(days=1)  # a pair that trades around the clock, and has not for so long
_FETCHERS = 4
_FRAMES: Mapping[str, tuple[str, int]] = {"hour": ("1h", 60), "15min": ("15m", 15)}


def build(settings: Settings, day: dt.date | None) -> CcxtMarket:
    """No request is made."""
    own = own_settings(settings, CcxtSettings)
    return CcxtMarket(Venue(own.venue, url=own.url), AgedCache(settings.home / "cache" / f"ccxt-{own.venue}"))


class CcxtMarket:
    """MarketData of one venue. Days end at 00:00 UTC, weekends too. It has no news and no companies."""

    name = "ccxt"

    def __init__(self, venue: Venue, cache: AgedCache) -> None:
        self.clock = LiveClock(CRYPTO)
        self._venue, self._cache = venue, cache

    def universe(self, name: str) -> list[Listing]:
        raise MarketError(
            f"no universe named {name!r} of pairs",
            remedy="set DESK_UNIVERSE to pairs by comma, such as BTC-USD,ETH-USD",
        )

    def unknown(self, symbols: Sequence[str]) -> list[str]:
        known = self._venue.pairs()
        return [symbol for symbol in symbols if symbol not in known]

    def listing(self, symbol: str) -> Listing:
        pair = self._venue.pair(symbol)
        return Listing(
            symbol=symbol,
            name=f"{pair.base} at {self._venue.title}",
            price_step=pair.price_step,
            quantity_step=pair.quantity_step or 1,
            lot=pair.quantity_step,
            least_amount=self._least(pair),
        )

    def _least(self, pair: Pair) -> Any:
        """Return the least quantity of an order: the venue's, or what is worth its least amount of money now."""
        least = pair.least
        if pair.cost is not None and pair.quantity_step is not None:
            with suppress(DeskError):
                worth = pair.cost / exact(self.quote(pair.symbol).price)
                least = max(least or worth, stepped(worth, pair.quantity_step, ROUND_CEILING))
        return least

    def sessions(self, count: int) -> Sequence[dt.date]:
        return exchange_hours(CRYPTO).until(self.clock.session(), count)

    def bars(self, symbol: str, sessions: int) -> Bars:
        rows = self._daily(symbol)[-sessions:]
        dates = [dt.date.fromisoformat(row[0]) for row in rows]
        columns = [np.array([row[at] for row in rows], dtype=float) for at in range(1, 6)]
        return Bars(symbol, dates, False, *columns)

    def quote(self, symbol: str) -> Quote:
        """The last trade, at most some seconds older than the request."""
        self._venue.pair(symbol)
        kept = self._priced(symbol)
        price, told = kept.value["last"], kept.value["at"]
        at = min(kept.at, dt.datetime.fromtimestamp(told / 1000, dt.UTC)) if told else kept.at
        if kept.at - at > STALE:
            raise MarketError(f"{symbol} has not traded at {self._venue.title} since {at:%Y-%m-%d %H:%M} UTC")
        now = self.clock.now()
        return Quote(symbol=symbol, price=price, at=min(at, now).astimezone(now.tzinfo), source=self._source)

    def fill_price(self, symbol: str) -> Quote | None:
        return self.quote(symbol)

    def rate(self, pair: str, at: dt.datetime | None = None) -> FxRate:
        """The last trade of one currency against another, such as USDT in USD."""
        first, second = parse_pair(pair)
        known = self._venue.pairs()
        for symbol, turned in ((f"{first}-{second}", False), (f"{second}-{first}", True)):
            if symbol in known:
                found = self._priced(symbol)
                price = found.value["last"]
                return FxRate(first, second, 1 / price if turned else price, found.at, self._venue.title)
        raise MarketError(f"{self._venue.title} has no pair of {first} and {second}")

    def intraday(self, symbol: str, interval: Literal["hour", "15min"], sessions: int) -> Intraday:
        self._venue.pair(symbol)
        frame, minutes = _FRAMES[interval]
        kept = self._cache.get(f"{interval}-{symbol}", INTRADAY_AGE, lambda: recent(self._venue, symbol, frame))
        starts = [dt.datetime.fromtimestamp(row[0] / 1000, dt.UTC) for row in kept.value]
        names = ("open", "high", "low", "close", "volume")
        columns = {name: [row[at] for row in kept.value] for at, name in enumerate(names, 1)}
        return intraday_of(symbol, columns, starts, minutes, sessions, min(kept.at, self.clock.now()), True)

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        raise NotConfigured("not available: the ccxt market has no news; configure DESK_MARKET=yahoo for them")

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        raise NotConfigured(f"not available: a coin has no {section} of a company")

    def prefetch(self, symbols: Sequence[str], seconds: float) -> None:
        pool = concurrent.futures.ThreadPoolExecutor(_FETCHERS, thread_name_prefix="ccxt")
        try:
            concurrent.futures.wait([pool.submit(self._try, symbol) for symbol in symbols], seconds)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _try(self, symbol: str) -> None:
        with suppress(DeskError):
            self._daily(symbol)

    @property
    def _source(self) -> str:
        return f"ccxt {self._venue.name}"

    def _daily(self, symbol: str) -> Rows:
        """Return the candles of whole days up to the last one that ended. What was kept before midnight is too old."""
        self._venue.pair(symbol)
        last = self.clock.session()
        kept = self._kept(symbol, last, BARS_AGE)
        if kept.value[-1][0] < last.isoformat():
            kept = self._kept(symbol, last, dt.timedelta(0))
        return kept.value  # type: ignore[no-any-return]

    def _kept(self, symbol: str, last: dt.date, age: dt.timedelta) -> Kept:
        return self._cache.get(f"daily-{symbol}", age, lambda: self._fetch_daily(symbol, last))

    def _fetch_daily(self, symbol: str, last: dt.date) -> Rows:
        self._venue.require_clock()
        return daily(self._venue, symbol, last, HISTORY)

    def _priced(self, symbol: str) -> Kept:
        return self._cache.get(f"ticker-{symbol}", QUOTE_AGE, lambda: self._ticker(symbol))

    def _ticker(self, symbol: str) -> dict[str, Any]:
        self._venue.require_clock()
        found = self._venue.ask("fetch_ticker", symbol.replace("-", "/"))
        price = found.get("last") if isinstance(found, dict) else None
        if not isinstance(price, int | float) or not math.isfinite(price) or price <= 0:
            reason = f"{self._venue.title} gives no last price of {symbol}"
            raise MarketUnavailable(reason, remedy="try again in a minute")
        told = found.get("timestamp")
        if told is not None and not isinstance(told, int | float):
            raise VenueSilent(f"the time of {self._venue.title}'s price of {symbol} cannot be read")
        return {"last": float(price), "at": told}
