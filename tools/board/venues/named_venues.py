"""Venues by name, built when they are asked for: their wires need the extra `events`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chordesk.models.board.forecasts import VENUES
from chordesk.models.errors import UsageError
from chordesk.models.features import require_source
from chordesk.models.settings import Settings
from chordesk.tools.board.venues.markets import EventVenue

if TYPE_CHECKING:
    from chordesk.tools.board.venues.hyperliquid import Hyperliquid

ADDRESSES = {
    "manifold": "https://api.manifold.markets",
    "polymarket": "https://gamma-api.polymarket.com",
    "polymarket_book": "https://clob.polymarket.com",
    "kalshi": "https://api.elections.kalshi.com",
    "hyperliquid": "https://api.hyperliquid.xyz",
}


def build_venue(name: str) -> EventVenue:
    """No request is made. Raises UsageError for an unknown name, NotConfigured when the extra is not installed."""
    if name not in VENUES:
        raise UsageError(f"{name!r} is no venue", remedy=f"known are {', '.join(VENUES)}")
    require_source("events")
    if name == "manifold":
        from chordesk.tools.board.venues.manifold import Manifold

        return Manifold(ADDRESSES["manifold"])
    if name == "polymarket":
        from chordesk.tools.board.venues.polymarket import Polymarket

        return Polymarket(
            ADDRESSES["polymarket"],
            ADDRESSES["polymarket_book"],
        )
    from chordesk.tools.board.venues.kalshi import Kalshi

    return Kalshi(ADDRESSES["kalshi"])


def build_venues(settings: Settings) -> dict[str, EventVenue]:
    return {name: build_venue(name) for name in settings.venues if name in VENUES}


def build_funding() -> Hyperliquid:
    require_source("events")
    from chordesk.tools.board.venues.hyperliquid import Hyperliquid

    return Hyperliquid(ADDRESSES["hyperliquid"])
