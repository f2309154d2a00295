from __future__ import annotations

from typing import Any

import pytest

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.tools.venues import kalshi
from chordesk.tools.venues.kalshi import Kalshi
from chordesk.tools.venues.markets import BookLevel
from tests.fakes import venues
from tests.fakes.venues import FarVenues, kalshi_row

TICKER = "KXRAIN-26MAY-T5"


@pytest.fixture
def venue(far: FarVenues) -> Kalshi:
    far.kalshi[TICKER] = kalshi_row(TICKER, "Will it rain in May?", "0.4000", "0.4400", yes_sub_title="Above 5 inches")
    return Kalshi(far.url)


def test_a_market_is_read_as_documented(venue: Kalshi) -> None:
    market = venue.market(TICKER)
    assert (market.venue, market.id) == ("kalshi", TICKER)
    assert market.question == "Will it rain in May? (Above 5 inches)"
    assert (market.probability, market.basis) == (0.42, "midpoint of bid and ask")
    assert (market.bid, market.ask, market.volume, market.state) == (0.40, 0.44, 4321.0, "open")
    assert (market.fee, market.url) == (kalshi.FEE, "https://kalshi.com/markets/kxrain")


def test_the_best_level_is_what_is_public_of_the_book(venue: Kalshi) -> None:
    book = venue.book(venue.market(TICKER))
    assert book is not None
    assert (book.bids, book.asks) == ((BookLevel(0.40, 120.0),), (BookLevel(0.44, 80.0),))


def test_a_level_without_a_size_is_no_depth(far: FarVenues, venue: Kalshi) -> None:
    del far.kalshi[TICKER]["yes_ask_size_fp"]
    book = venue.book(venue.market(TICKER))
    assert book is not None
    assert book.asks == ()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"yes_bid_dollars": 40}, "market.yes_bid_dollars"),
        ({"yes_bid_dollars": 0.4}, "market.yes_bid_dollars"),
        ({"yes_ask_dollars": "1.4000"}, "market.yes_ask_dollars"),
        ({"yes_ask_dollars": "-"}, "market.yes_ask_dollars"),
        ({"volume_fp": 4321}, "market.volume_fp"),
        ({"status": None}, "market.status"),
        ({"close_time": 1_700_000_000}, "market.close_time"),
        ({"status": "finalized", "result": ""}, "result"),
    ],
)
def test_a_field_that_is_not_as_documented_is_named(
    far: FarVenues, venue: Kalshi, fields: dict[str, Any], field: str
) -> None:
    far.kalshi[TICKER].update(fields)
    with pytest.raises(MarketUnavailable, match=f"Kalshi's answer could not be read: {field}: "):
        venue.market(TICKER)


@pytest.mark.parametrize(
    ("bid", "ask", "basis"),
    [
        ("0.0000", "1.0000", "no bid and no ask"),
        ("0.0000", "0.0500", "no bid"),
        ("0.9500", "1.0000", "no ask"),
        (None, None, "no bid and no ask"),
        ("0.0100", "0.9900", "no price between a bid of 0.01 and an ask of 0.99"),
    ],
)
def test_a_market_without_a_price_has_none(
    far: FarVenues, venue: Kalshi, bid: str | None, ask: str | None, basis: str
) -> None:
    far.kalshi[TICKER].update(yes_bid_dollars=bid, yes_ask_dollars=ask)
    market = venue.market(TICKER)
    assert (market.probability, market.basis) == (None, basis)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "active"}, ("open", None)),
        ({"status": "inactive"}, ("closed", None)),
        ({"status": "closed"}, ("closed", None)),
        ({"status": "determined", "result": "yes"}, ("closed", None)),
        ({"status": "finalized", "result": "yes"}, ("resolved", 1.0)),
        ({"status": "finalized", "result": "no"}, ("resolved", 0.0)),
        ({"status": "finalized", "result": "scalar", "settlement_value_dollars": "0.3500"}, ("resolved", 0.35)),
        ({"status": "finalized", "result": "void"}, ("resolved", "void")),
    ],
)
def test_a_market_is_resolved_once_it_is_final(
    far: FarVenues, venue: Kalshi, fields: dict[str, Any], expected: tuple[str, Any]
) -> None:
    far.kalshi[TICKER].update(fields)
    market = venue.market(TICKER)
    assert (market.state, market.outcome) == expected


def test_a_market_settled_long_ago_is_found_where_it_is_kept(far: FarVenues, venue: Kalshi) -> None:
    far.kalshi_old["KXOLD-1"] = kalshi_row("KXOLD-1", "Was it?", status="finalized", result="no")
    assert venue.market("KXOLD-1").outcome == 0.0
    with pytest.raises(MarketError, match="Kalshi has nothing at"):
        venue.market("KXNONE-1")


def test_a_search_chooses_by_title_over_the_pages(
    far: FarVenues, venue: Kalshi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venues, "PAGE", 2)
    for number in range(4):
        far.kalshi[f"KXSUN-{number}"] = kalshi_row(f"KXSUN-{number}", f"Sun on day {number}?")
    far.kalshi["KXRAIN-S"] = kalshi_row("KXRAIN-S", "How much rain in May?", market_type="scalar")
    found = venue.search("May rain", 10)
    assert ([market.id for market in found.markets], found.left_out, found.whole) == ([TICKER], 1, True)
    assert far.asked_for("/trade-api/v2/markets") == 3
    assert far.asked[0][1]["mve_filter"] == "exclude"


def test_a_search_ends_at_its_limit_of_pages_and_shows_it(
    far: FarVenues, venue: Kalshi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venues, "PAGE", 1)
    for number in range(15):
        far.kalshi[f"KXSUN-{number}"] = kalshi_row(f"KXSUN-{number}", f"Sun on day {number}?")
    found = venue.search("rain", 10)
    assert (len(found.markets), found.whole) == (1, False)
    assert far.asked_for("/trade-api/v2/markets") == kalshi._PAGES


def test_a_search_that_takes_long_ends_with_what_it_has(
    far: FarVenues, venue: Kalshi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venues, "PAGE", 1)
    monkeypatch.setattr(kalshi, "SEARCH_SECONDS", 0.0)
    far.kalshi["KXSUN-1"] = kalshi_row("KXSUN-1", "Sun?")
    found = venue.search("rain", 10)
    assert (len(found.markets), found.whole, far.asked_for("/trade-api/v2/markets")) == (1, False, 1)
