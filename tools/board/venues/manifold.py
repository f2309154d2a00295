"""Manifold's wire: play money, a pool in place of a book. Documented at docs.manifold.markets/api."""

from __future__ import annotations

import datetime as dt
from urllib.parse import quote

from pydantic import TypeAdapter

from chordesk.models.errors import MarketError
from chordesk.tools.board.venues.json_client import MomentMs, Params, Probability, Shape, unreadable, venue_at
from chordesk.tools.board.venues.markets import NO_FEE, EventBook, FoundMarkets, Outcome, Pool, VenueMarket, VenueState

NAME, TITLE = "manifold", "Manifold"
_MOST = 1000
BINARY = "BINARY"


class ManifoldMarket(Shape):
    id: str
    question: str
    url: str
    outcomeType: str
    isResolved: bool
    volume: float | None = None
    probability: Probability | None = None
    pool: dict[str, float] | None = None
    p: Probability | None = None
    closeTime: MomentMs | None = None
    resolution: str | None = None
    resolutionProbability: Probability | None = None
    token: str | None = None
    textDescription: str | None = None


_MARKET, _MARKETS = TypeAdapter(ManifoldMarket), TypeAdapter(list[ManifoldMarket])


class Manifold:
    """EventVenue of Manifold. Its prices are in mana, which buys nothing, unless a market's token is CASH."""

    name = NAME

    def __init__(self, base: str) -> None:
        self._http = venue_at(TITLE, base)

    def search(self, term: str, limit: int) -> FoundMarkets:
        count = min(limit, _MOST)
        asked: Params = {"term": term, "filter": "open", "contractType": BINARY, "limit": count}
        rows = self._http.get(_MARKETS, "/v0/search-markets", asked)
        now = dt.datetime.now(dt.UTC)
        binary = [row for row in rows if row.outcomeType == BINARY]
        found = tuple(market_of(row, now) for row in binary[:limit])
        return FoundMarkets(found, left_out=len(rows) - len(binary), whole=len(rows) < count)

    def market(self, market_id: str) -> VenueMarket:
        row = self._http.get(_MARKET, f"/v0/market/{quote(market_id, safe='')}")
        if row.outcomeType != BINARY:
            raise MarketError(f"{TITLE}'s market {market_id} has other outcomes than YES and NO: {row.outcomeType}")
        return market_of(row, dt.datetime.now(dt.UTC))

    def exclusive(self, event: str) -> bool:
        """Return False: exclusive answers are one market there, which has other than two outcomes."""
        return False

    def book(self, market: VenueMarket) -> EventBook | None:
        """Return None: its offers are those of the pool. People's limit orders would only add to them."""
        return None


def market_of(row: ManifoldMarket, now: dt.datetime) -> VenueMarket:
    state: VenueState = "open"
    if row.isResolved:
        state = "resolved"
    elif row.closeTime is not None and row.closeTime <= now:
        state = "closed"
    price = None if row.isResolved else row.probability
    return VenueMarket(
        venue=NAME,
        id=row.id,
        question=row.question,
        url=row.url,
        rules=row.textDescription or "",
        state=state,
        outcome=_outcome(row),
        closes_at=row.closeTime,
        probability=price,
        basis="resolved" if row.isResolved else "no probability" if price is None else "the pool's probability",
        bid=price,
        ask=price,
        volume=row.volume,
        as_of=now,
        fee=NO_FEE,
        play_money=row.token != "CASH",
        pool=_pool(row),
    )


def _pool(row: ManifoldMarket) -> Pool | None:
    sides = row.pool or {}
    if row.p is None or not 0 < row.p < 1 or min(sides.get("YES", 0), sides.get("NO", 0)) <= 0:
        return None
    return Pool(sides["YES"], sides["NO"], row.p)


def _outcome(row: ManifoldMarket) -> Outcome | None:
    """Return the outcome of a resolved market. Raises MarketUnavailable for a resolution that is not documented."""
    if not row.isResolved:
        return None
    if row.resolution in ("YES", "NO"):
        return 1.0 if row.resolution == "YES" else 0.0
    if row.resolution == "CANCEL":
        return "void"
    if row.resolution != "MKT":
        raise unreadable(TITLE, "resolution", f"{row.resolution!r} is none of YES, NO, MKT, CANCEL")
    if row.resolutionProbability is None:
        raise unreadable(TITLE, "resolutionProbability", "missing of a market resolved to MKT")
    return row.resolutionProbability
