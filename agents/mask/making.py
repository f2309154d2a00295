"""The mask of a run: its key, the names it may meet, and what they traded at."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from functools import cache

from sqlmodel import select

from chordesk.agents.mask.mask import Mask
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.market import Listing
from chordesk.models.settings import REPLAYING, Settings
from chordesk.models.tables.processes import Identity
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import NAMED, resolve_universe

TRADED_SESSIONS = 300  # whose prices are known in texts


def mask_for(store: Store, settings: Settings, run_id: str, market: MarketData) -> Mask:
    """The key is of the run and of the desk's own id, which its database keeps: the same in each of its processes."""
    with store.read() as session:
        desk = session.exec(select(Identity.desk)).one()
    key = hmac.digest(desk.encode(), run_id.encode(), hashlib.sha256)
    day = exchange_day(market.clock.now())
    return Mask(settings.mask, key, listings_of(settings, market), day, traded(market))


def listings_of(settings: Settings, market: MarketData) -> list[Listing]:
    """Return the names of the market's own universe, and those of the settings."""
    found: dict[str, Listing] = {}
    for name in NAMED:
        try:
            found |= {one.symbol: one for one in market.universe(name)}
        except DeskError:
            continue
    for symbol in resolve_universe(settings.universe, market):
        known = found.get(symbol) or (market.listing(symbol) if settings.market in REPLAYING else None)
        found[symbol] = known or Listing(symbol=symbol)
    return list(found.values())


def traded(market: MarketData) -> Callable[[str], frozenset[str]]:
    @cache
    def prices(symbol: str) -> frozenset[str]:
        try:
            bars = market.bars(symbol, TRADED_SESSIONS)
        except DeskError:
            return frozenset()
        values = (bars.open, bars.high, bars.low, bars.close)
        return frozenset(f"{value:.2f}" for column in values for value in column.tolist())

    return prices
