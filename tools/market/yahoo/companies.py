"""What Yahoo knows of companies beside their prices, cached by symbol and kind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chordesk.models.company import EarningsDate, Holder, InsiderTrade, PriceTargets, RatingChange, ShortInterest
from chordesk.models.errors import DeskError, MarketError, NotConfigured
from chordesk.models.market import Headline, Listing
from chordesk.tools.market.aged_cache import AgedCache, Kept
from chordesk.tools.market.protocol import MarketClock
from chordesk.tools.market.yahoo import company_shapes, shapes
from chordesk.tools.market.yahoo.shapes import Section
from chordesk.tools.market.yahoo.wire import YahooWire

NEWS_AGE = dt.timedelta(minutes=10)
RESEARCH_AGE = dt.timedelta(hours=6)
INFO_AGE = dt.timedelta(hours=12)
_NEWS_COUNT = 25


class YahooCompanies:
    """The part of Yahoo's market that is no price. What Yahoo has of now alone is refused under a clock that stands on
    a past day; without a publication time of its own, a row was known when it was fetched."""

    name = "yahoo"

    def __init__(self, home: Path, clock: MarketClock, wire: YahooWire) -> None:
        self.clock = clock
        self._wire = wire
        self._cache = AgedCache(home / "cache" / "yahoo")

    def listing(self, symbol: str) -> Listing:
        info = self._info(symbol).value
        name = info.get("longName") or info.get("shortName")
        return Listing(symbol=symbol, name=name, sector=info.get("sector"), industry=info.get("industry"))

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        stream = self._cache.get(f"news-{symbol}", NEWS_AGE, lambda: self._wire.news(symbol, _NEWS_COUNT)).value
        now = self.clock.now()
        published = [row for row in shapes.headlines_of(symbol, stream) if row.published_at <= now]
        return sorted(published, key=lambda row: row.published_at, reverse=True)[:limit]

    def section(self, symbol: str, section: str) -> Section:
        """Return the section with `knownAt`, when it was fetched."""
        kept = self._info(symbol)
        found = shapes.section_of(kept.value, section)
        if found is None:
            raise MarketError(f"Yahoo has no {section} of {symbol}")
        return {**found, "knownAt": self._at(kept).isoformat()}

    def earnings(self, symbol: str) -> list[EarningsDate]:
        """Return the dates of the earnings calendar and of the company's own page: what one of them has, where the
        other fails. Raises the calendar's error when both do."""
        self._require_now("earnings dates")
        failed: list[DeskError] = []
        reports: Kept | None = None
        info: Kept | None = None
        try:
            reports = self._kept("earnings", symbol, lambda: company_shapes.reports_of(self._wire.earnings(symbol)))
        except DeskError as error:
            failed.append(error)
        try:
            info = self._info(symbol)
        except DeskError as error:
            failed.append(error)
        if reports is None and info is None:
            raise failed[0]
        at = min(self._at(kept) for kept in (reports, info) if kept is not None)
        return company_shapes.earnings_of(symbol, reports.value if reports else [], info.value if info else {}, at)

    def short_interest(self, symbol: str) -> list[ShortInterest]:
        self._require_now("short interest")
        info = self._info(symbol)
        return company_shapes.short_interest_of(symbol, info.value, self._at(info))

    def rating_changes(self, symbol: str) -> list[RatingChange]:
        self._require_now("analyst ratings")
        kept = self._kept("ratings", symbol, lambda: company_shapes.changes_of(self._wire.ratings(symbol)))
        return company_shapes.rating_changes_of(symbol, kept.value)

    def price_targets(self, symbol: str) -> list[PriceTargets]:
        self._require_now("analyst ratings")
        info = self._info(symbol)
        return company_shapes.price_targets_of(symbol, info.value, self._at(info))

    def insider_trades(self, symbol: str) -> list[InsiderTrade]:
        self._require_now("insider trades")
        kept = self._owners(symbol)
        return company_shapes.insider_trades_of(symbol, kept.value["trades"], self._at(kept))

    def holders(self, symbol: str) -> list[Holder]:
        self._require_now("institutional holders")
        kept = self._owners(symbol)
        return company_shapes.holders_of(symbol, kept.value["holders"], self._at(kept))

    def _require_now(self, what: str) -> None:
        if self.clock.day is not None:
            raise NotConfigured(f"not available in a replay: Yahoo has the {what} of now alone, none of a past day")

    def _at(self, kept: Kept) -> dt.datetime:
        return min(kept.at, self.clock.now())

    def _kept(self, kind: str, symbol: str, fetch: Callable[[], Any]) -> Kept:
        return self._cache.get(f"{kind}-{symbol}", RESEARCH_AGE, fetch)

    def _info(self, symbol: str) -> Kept:
        return self._cache.get(f"info-{symbol}", INFO_AGE, lambda: self._wire.info(symbol))

    def _owners(self, symbol: str) -> Kept:
        """Return insiders' trades and institutions' holdings, which Yahoo gives in one answer."""
        return self._kept("owners", symbol, lambda: self._fetch_owners(symbol))

    def _fetch_owners(self, symbol: str) -> dict[str, list[Section]]:
        trades, holders = self._wire.owners(symbol)
        return {"trades": company_shapes.trades_of(trades), "holders": company_shapes.holdings_of(holders)}
