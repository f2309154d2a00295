"""Markets and books for tests of event positions."""

from __future__ import annotations

import datetime as dt
from typing import Any

from chordesk.tools.venues.kalshi import FEE as KALSHI
from chordesk.tools.venues.markets import NO_FEE, BookLevel, EventBook, Pool, VenueMarket

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def market_of(venue: str = "kalshi", market_id: str = "KX-1", **changes: Any) -> VenueMarket:
    """An open market with Kalshi's fee."""
    fields: dict[str, Any] = {
        "venue": venue,
        "id": market_id,
        "question": "Will it rain?",
        "url": "",
        "rules": "",
        "state": "open",
        "outcome": None,
        "closes_at": NOW + dt.timedelta(days=30),
        "probability": 0.5,
        "basis": "",
        "bid": None,
        "ask": None,
        "volume": None,
        "as_of": NOW,
        "fee": KALSHI,
    }
    return VenueMarket(**(fields | changes))


def pool_market(yes: float = 1000, no: float = 1000, p: float = 0.5) -> VenueMarket:
    """An open market of Manifold with this pool."""
    price = p * no / ((1 - p) * yes + p * no)
    return market_of("manifold", "m1", fee=NO_FEE, pool=Pool(yes, no, p), probability=price, play_money=True)


def book_of(bids: list[tuple[float, float]], asks: list[tuple[float, float]]) -> EventBook:
    """A book of (price, size), the best level first."""
    sides = [tuple(BookLevel(price, size) for price, size in side) for side in (bids, asks)]
    return EventBook(sides[0], sides[1], NOW)
