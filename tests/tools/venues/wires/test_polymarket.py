from __future__ import annotations

from typing import Any

import pytest

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.tools.venues.markets import NO_FEE, BookLevel, FeeTerms
from chordesk.tools.venues.polymarket import Polymarket
from tests.fakes.venues import FarVenues, book_of, in_days, polymarket_row


@pytest.fixture
def venue(far: FarVenues) -> Polymarket:
    far.polymarket["7"] = polymarket_row("7", "Will it rain in May?", 0.40, 0.44)
    return Polymarket(far.url, far.url)


def test_a_market_is_read_as_documented(venue: Polymarket) -> None:
    market = venue.market("7")
    assert (market.venue, market.id, market.question) == ("polymarket", "7", "Will it rain in May?")
    assert (market.probability, market.basis) == (0.42, "midpoint of bid and ask")
    assert (market.bid, market.ask, market.volume, market.state) == (0.40, 0.44, 12345.67, "open")
    assert (market.token, market.fee, market.play_money) == ("71", FeeTerms(0.04), False)
    assert market.url == "https://polymarket.com/market/market-7"


def test_the_book_has_the_best_level_first(far: FarVenues, venue: Polymarket) -> None:
    far.books["71"] = book_of([("0.38", "50"), ("0.40", "20.5")], [("0.47", "9"), ("0.44", "30")])
    book = venue.book(venue.market("7"))
    assert book is not None
    assert book.bids == (BookLevel(0.40, 20.5), BookLevel(0.38, 50.0))
    assert book.asks == (BookLevel(0.44, 30.0), BookLevel(0.47, 9.0))
    assert book.offers("no") == (BookLevel(0.60, 20.5), BookLevel(0.62, 50.0))


@pytest.mark.parametrize(("price", "size"), [(0.44, "30"), ("0.44", 30), ("1.44", "30"), ("nan", "30"), ("x", "1")])
def test_a_level_that_is_not_as_documented_is_an_error(
    far: FarVenues, venue: Polymarket, price: Any, size: Any
) -> None:
    far.books["71"] = book_of([], [(price, size)])
    with pytest.raises(MarketUnavailable, match=r"Polymarket's answer could not be read: asks\.0\."):
        venue.book(venue.market("7"))


def test_a_market_without_a_token_has_no_book(far: FarVenues, venue: Polymarket) -> None:
    far.polymarket["7"]["clobTokenIds"] = None
    with pytest.raises(MarketError, match="7 has no order book"):
        venue.book(venue.market("7"))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"outcomes": ["Yes", "No"]}, "outcomes"),
        ({"outcomes": '["Yes", 1]'}, "outcomes"),
        ({"clobTokenIds": '["7'}, "clobTokenIds"),
        ({"bestBid": "0.4"}, "bestBid"),
        ({"volume": 12.5}, "volume"),
        ({"closed": None}, "closed"),
        ({"endDate": "in May"}, "endDate"),
        ({"feeSchedule": {"rate": "0.04", "exponent": 1}}, "feeSchedule.rate"),
        ({"closed": True, "umaResolutionStatus": "resolved", "outcomePrices": '["x", "y"]'}, "outcomePrices"),
        ({"closed": True, "umaResolutionStatus": "resolved", "outcomePrices": '["1"]'}, "outcomePrices"),
    ],
)
def test_a_field_that_is_not_as_documented_is_named(
    far: FarVenues, venue: Polymarket, fields: dict[str, Any], field: str
) -> None:
    far.polymarket["7"].update(fields)
    with pytest.raises(MarketUnavailable, match=f"Polymarket's answer could not be read: {field}: "):
        venue.market("7")


@pytest.mark.parametrize(
    ("bid", "ask", "basis"),
    [
        (None, None, "no bid and no ask"),
        (0, 1, "no bid and no ask"),
        (0.4, 1, "no ask"),
        (0, 0.4, "no bid"),
        (0.01, 0.99, "no price between a bid of 0.01 and an ask of 0.99"),
    ],
)
def test_a_market_without_a_price_has_none(
    far: FarVenues, venue: Polymarket, bid: float | None, ask: float | None, basis: str
) -> None:
    far.polymarket["7"].update(bestBid=bid, bestAsk=ask)
    market = venue.market("7")
    assert (market.probability, market.basis) == (None, basis)


@pytest.mark.parametrize(
    ("prices", "status", "expected"),
    [
        ('["1", "0"]', "resolved", ("resolved", 1.0)),
        ('["0", "1"]', "resolved", ("resolved", 0.0)),
        ('["0.5", "0.5"]', "resolved", ("resolved", 0.5)),
        ('["1", "0"]', "proposed", ("closed", None)),
        ('["1", "0"]', "disputed", ("closed", None)),
        ('["1", "0"]', None, ("closed", None)),
        ('["0.9995", "0.0005"]', "resolved", ("closed", None)),
        ('["0", "0"]', "resolved", ("closed", None)),
    ],
)
def test_a_closed_market_is_resolved_once_its_oracle_is_done(
    far: FarVenues, venue: Polymarket, prices: str, status: str | None, expected: tuple[str, float | None]
) -> None:
    far.polymarket["7"].update(closed=True, umaResolutionStatus=status, outcomePrices=prices)
    market = venue.market("7")
    assert (market.state, market.outcome) == expected
    assert market.probability is None


def test_a_market_past_its_end_waits_for_its_outcome(far: FarVenues, venue: Polymarket) -> None:
    far.polymarket["7"]["endDate"] = f"{in_days(-1):%Y-%m-%dT%H:%M:%SZ}"
    assert venue.market("7").state == "closed"


@pytest.mark.parametrize(
    ("fields", "fee"),
    [
        ({"feesEnabled": False, "feeSchedule": None}, NO_FEE),
        ({"feeSchedule": None}, None),
        ({"feeSchedule": {"rate": 0.25, "exponent": 2}}, FeeTerms(0.25, exponent=2.0)),
    ],
)
def test_a_fee_that_is_not_stated_is_unknown(
    far: FarVenues, venue: Polymarket, fields: dict[str, Any], fee: FeeTerms | None
) -> None:
    far.polymarket["7"].update(fields)
    assert venue.market("7").fee == fee


def test_a_search_is_the_venues_own_and_counts_other_outcomes(far: FarVenues, venue: Polymarket) -> None:
    far.polymarket["8"] = polymarket_row("8", "Rain: how much?", outcomes='["Much", "Little"]')
    far.polymarket["9"] = polymarket_row("9", "Will it rain in April?", closed=True)
    found = venue.search("rain", 10)
    assert ([market.id for market in found.markets], found.left_out, found.whole) == (["7"], 1, True)
    assert far.asked[-1][1]["q"] == "rain"
    assert not venue.search("rain", 1).whole


def test_without_a_term_the_running_markets_are_listed(far: FarVenues, venue: Polymarket) -> None:
    far.polymarket["9"] = polymarket_row("9", "Will it rain in April?", closed=True)
    assert [market.id for market in venue.search("", 10).markets] == ["7"]
    assert far.asked[-1][0] == "/markets"
