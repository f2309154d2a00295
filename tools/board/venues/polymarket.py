"""Polymarket's wires: Gamma has the markets, the CLOB their books. Documented at docs.polymarket.com."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from urllib.parse import quote

from pydantic import Field, TypeAdapter

from chordesk.models.errors import MarketError
from chordesk.tools.board.venues.json_client import (
    MomentText,
    NumberText,
    Params,
    PriceText,
    Probability,
    Shape,
    TextsText,
    unreadable,
    venue_at,
)
from chordesk.tools.board.venues.markets import (
    NO_FEE,
    BookLevel,
    EventBook,
    FeeTerms,
    FoundMarkets,
    Outcome,
    VenueMarket,
    VenueState,
    price_between,
)

NAME, TITLE = "polymarket", "Polymarket"
_MOST = 500
_SIDES = ("Yes", "No")
_FINAL = {0.0, 0.5, 1.0}  # what its oracle can give


class _Fee(Shape):
    rate: float = Field(ge=0)
    exponent: float = Field(ge=0)


class _Market(Shape):
    id: str
    question: str
    closed: bool
    conditionId: str | None = None
    slug: str | None = None
    description: str | None = None
    outcomes: TextsText | None = None
    outcomePrices: TextsText | None = None
    clobTokenIds: TextsText | None = None
    bestBid: Probability | None = None
    bestAsk: Probability | None = None
    volume: NumberText | None = None
    endDate: MomentText | None = None
    umaResolutionStatus: str | None = None
    feesEnabled: bool | None = None
    feeSchedule: _Fee | None = None
    negRisk: bool | None = None
    negRiskMarketID: str | None = None

    @property
    def two_sided(self) -> bool:
        return self.outcomes == _SIDES


class _Event(Shape):
    markets: list[_Market] = Field(default_factory=list)


class _Pages(Shape):
    hasMore: bool = False


class _Search(Shape):
    events: list[_Event] | None = None
    pagination: _Pages = _Pages()


class _Level(Shape):
    price: PriceText
    size: NumberText


class _Book(Shape):
    bids: list[_Level]
    asks: list[_Level]


_MARKET, _MARKETS, _SEARCH = TypeAdapter(_Market), TypeAdapter(list[_Market]), TypeAdapter(_Search)
_BOOK = TypeAdapter(_Book)


class Polymarket:
    """EventVenue of Polymarket."""

    name = NAME

    def __init__(self, base: str, book_base: str) -> None:
        self._markets = venue_at(TITLE, base)
        self._books = venue_at(TITLE, book_base)

    def search(self, term: str, limit: int) -> FoundMarkets:
        """Return open markets of the events that its own search finds, or those with the highest volume."""
        if term:
            asked: Params = {"q": term, "limit_per_type": min(limit, _MOST), "events_status": "active"}
            answer = self._markets.get(_SEARCH, "/public-search", asked)
            rows = [row for event in answer.events or [] for row in event.markets]
            more = answer.pagination.hasMore
        else:
            count = min(limit, _MOST)
            top: Params = {"closed": "false", "limit": count, "order": "volumeNum", "ascending": "false"}
            rows = self._markets.get(_MARKETS, "/markets", top)
            more = len(rows) >= count
        return _found(rows, limit, more)

    def market(self, market_id: str) -> VenueMarket:
        row = self._markets.get(_MARKET, f"/markets/{quote(market_id, safe='')}")
        if not row.two_sided:
            raise MarketError(f"{TITLE}'s market {market_id} has other outcomes than Yes and No: {row.outcomes}")
        return _market(row, dt.datetime.now(dt.UTC))

    def exclusive(self, event: str) -> bool:
        """Return True: only its negative-risk events are read, and exactly one outcome of these wins."""
        return True

    def book(self, market: VenueMarket) -> EventBook | None:
        book = self._books.get(_BOOK, "/book", {"token_id": _token(market)})
        # The best level is the last of each list; sorted, it does not depend on that.
        bids, asks = (sorted(_levels(side), key=lambda level: level.price) for side in (book.bids, book.asks))
        return EventBook(tuple(reversed(bids)), tuple(asks), dt.datetime.now(dt.UTC))


def _found(rows: Iterable[_Market], limit: int, more: bool) -> FoundMarkets:
    now = dt.datetime.now(dt.UTC)
    running = [row for row in rows if not row.closed]
    sided = [row for row in running if row.two_sided]
    found = tuple(_market(row, now) for row in sided[:limit])
    return FoundMarkets(found, left_out=len(running) - len(sided), whole=not more and len(sided) <= limit)


def _market(row: _Market, now: dt.datetime) -> VenueMarket:
    state, outcome = _state(row, now)
    bid, ask = row.bestBid or None, row.bestAsk if row.bestAsk and row.bestAsk < 1 else None
    probability, basis = price_between(bid, ask) if state == "open" else (None, state)
    return VenueMarket(
        venue=NAME,
        id=row.id,
        question=row.question,
        url=f"https://polymarket.com/market/{row.slug or row.id}",
        rules=row.description or "",
        state=state,
        outcome=outcome,
        closes_at=row.endDate,
        probability=probability,
        basis=basis,
        bid=bid if state == "open" else None,
        ask=ask if state == "open" else None,
        volume=row.volume,
        as_of=now,
        fee=_fee(row),
        token=row.clobTokenIds[0] if row.clobTokenIds else None,
        event=(row.negRiskMarketID or None) if row.negRisk else None,
    )


def _state(row: _Market, now: dt.datetime) -> tuple[VenueState, Outcome | None]:
    """Return (state, outcome). A market is resolved once its oracle is done and its prices are an outcome; one that is
    closed before that has a proposed outcome at best, which can be disputed."""
    if not row.closed:
        over = row.endDate is not None and row.endDate <= now
        return ("closed" if over else "open"), None
    if row.umaResolutionStatus != "resolved" or row.outcomePrices is None:
        return "closed", None
    if len(row.outcomePrices) != len(_SIDES):
        raise unreadable(TITLE, "outcomePrices", f"{len(row.outcomePrices)} prices of two outcomes")
    try:
        yes, no = (float(price) for price in row.outcomePrices)
    except ValueError:
        raise unreadable(TITLE, "outcomePrices", f"no prices in {list(row.outcomePrices)}") from None
    return ("resolved", yes) if yes in _FINAL and yes + no == 1 else ("closed", None)


def _fee(row: _Market) -> FeeTerms | None:
    """Return the fee, none where none is charged, null where one is charged and not stated."""
    if row.feesEnabled is False:
        return NO_FEE
    if row.feeSchedule is None:
        return None
    return FeeTerms(row.feeSchedule.rate, exponent=row.feeSchedule.exponent)


def _token(market: VenueMarket) -> str:
    if market.token is None:
        raise MarketError(f"{TITLE}'s market {market.id} has no order book: its clobTokenIds are missing")
    return market.token


def _levels(rows: Iterable[_Level]) -> list[BookLevel]:
    return [BookLevel(row.price, row.size) for row in rows if row.size > 0 and 0 < row.price < 1]
