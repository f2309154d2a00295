"""Kalshi's public endpoints, without a key. Documented at docs.kalshi.com."""

from __future__ import annotations

import datetime as dt
import time
from urllib.parse import quote

from pydantic import TypeAdapter

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.tools.board.venues.json_client import MomentText, NumberText, PriceText, Shape, unreadable, venue_at
from chordesk.tools.board.venues.markets import (
    BookLevel,
    EventBook,
    FeeTerms,
    FoundMarkets,
    Outcome,
    VenueMarket,
    VenueState,
    price_between,
)

NAME, TITLE = "kalshi", "Kalshi"
FEE = FeeTerms(0.07, cents=True)
_API = "/trade-api/v2"
_PAGE, _PAGES = 500, 10
SEARCH_SECONDS = 30.0  # after which no further page is asked for
_BINARY = "binary"
_RESOLVED = ("finalized", "settled")  # determined and amended can still change


class _Market(Shape):
    ticker: str
    event_ticker: str
    status: str
    result: str
    title: str = ""
    market_type: str = _BINARY
    yes_sub_title: str = ""
    yes_bid_dollars: PriceText | None = None
    yes_ask_dollars: PriceText | None = None
    yes_bid_size_fp: NumberText | None = None
    yes_ask_size_fp: NumberText | None = None
    volume_fp: NumberText | None = None
    close_time: MomentText | None = None
    settlement_value_dollars: PriceText | None = None
    rules_primary: str = ""
    rules_secondary: str = ""

    @property
    def question(self) -> str:
        part = self.yes_sub_title
        return f"{self.title} ({part})" if part and part.casefold() not in self.title.casefold() else self.title


class _Page(Shape):
    markets: list[_Market]
    cursor: str | None = None


class _One(Shape):
    market: _Market


class _Event(Shape):
    mutually_exclusive: bool


class _OneEvent(Shape):
    event: _Event


_PAGE_SHAPE, _ONE, _EVENT = TypeAdapter(_Page), TypeAdapter(_One), TypeAdapter(_OneEvent)


class Kalshi:
    """EventVenue of Kalshi. It has no search: open markets are paged through, to a limit, and chosen by their titles.
    Its order books want a key, so of a book only the best level is known."""

    name = NAME

    def __init__(self, base: str) -> None:
        self._http = venue_at(TITLE, base)

    def search(self, term: str, limit: int) -> FoundMarkets:
        """Open markets with each part of the term in their titles, without combinations of other markets."""
        parts, now = term.casefold().split(), dt.datetime.now(dt.UTC)
        found: list[VenueMarket] = []
        left_out, cursor, until = 0, "", time.monotonic() + SEARCH_SECONDS
        for _ in range(_PAGES):
            asked: dict[str, str | int] = {"status": "open", "limit": _PAGE, "mve_filter": "exclude"}
            if cursor:
                asked["cursor"] = cursor
            page = self._http.get(_PAGE_SHAPE, f"{_API}/markets", asked)
            meant = [row for row in page.markets if all(part in row.question.casefold() for part in parts)]
            left_out += sum(row.market_type != _BINARY for row in meant)
            found += [_market(row, now) for row in meant if row.market_type == _BINARY]
            cursor = page.cursor or ""
            if not cursor or len(found) > limit or time.monotonic() >= until:
                break
        return FoundMarkets(tuple(found[:limit]), left_out, whole=not cursor and len(found) <= limit)

    def market(self, market_id: str) -> VenueMarket:
        path = f"/markets/{quote(market_id, safe='')}"
        try:
            row = self._http.get(_ONE, _API + path).market
        except MarketUnavailable:
            raise
        except MarketError:  # those settled long ago are kept elsewhere
            row = self._http.get(_ONE, f"{_API}/historical{path}").market
        if row.market_type != _BINARY:
            raise MarketError(f"{TITLE}'s market {market_id} has other outcomes than yes and no: {row.market_type}")
        return _market(row, dt.datetime.now(dt.UTC))

    def exclusive(self, event: str) -> bool:
        return self._http.get(_EVENT, f"{_API}/events/{quote(event, safe='')}").event.mutually_exclusive

    def book(self, market: VenueMarket) -> EventBook | None:
        """Return the best level of each side, with its size where that is stated."""
        bids = _level(market.bid, market.bid_size)
        asks = _level(market.ask, market.ask_size)
        return EventBook(bids, asks, market.as_of)


def _market(row: _Market, now: dt.datetime) -> VenueMarket:
    state: VenueState = "resolved" if row.status in _RESOLVED else "open" if row.status == "active" else "closed"
    bid, ask = (_bid(row.yes_bid_dollars), _ask(row.yes_ask_dollars)) if state == "open" else (None, None)
    probability, basis = price_between(bid, ask) if state == "open" else (None, state)
    return VenueMarket(
        venue=NAME,
        id=row.ticker,
        question=row.question or row.ticker,
        url=f"https://kalshi.com/markets/{row.event_ticker.partition('-')[0].lower()}",
        rules="\n".join(filter(None, (row.rules_primary, row.rules_secondary))),
        state=state,
        outcome=_outcome(row) if state == "resolved" else None,
        closes_at=row.close_time,
        probability=probability,
        basis=basis,
        bid=bid,
        ask=ask,
        volume=row.volume_fp,
        as_of=now,
        bid_size=row.yes_bid_size_fp,
        ask_size=row.yes_ask_size_fp,
        fee=FEE,
        event=row.event_ticker,
    )


def _outcome(row: _Market) -> Outcome:
    """Return the outcome of a settled market. Raises MarketUnavailable for one that states none."""
    if row.result in ("yes", "no"):
        return 1.0 if row.result == "yes" else 0.0
    if row.result == "void":
        return "void"
    if row.settlement_value_dollars is None:
        raise unreadable(TITLE, "result", f"{row.result!r} of a settled market that states no settlement value")
    return row.settlement_value_dollars


def _bid(price: float | None) -> float | None:
    """Return the best bid; nothing is bid at zero."""
    return price or None


def _ask(price: float | None) -> float | None:
    return price if price and price < 1 else None


def _level(price: float | None, size: float | None) -> tuple[BookLevel, ...]:
    return (BookLevel(price, size),) if price is not None and size else ()
