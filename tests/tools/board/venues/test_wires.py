"""The venues' wires against answers as they document them, and against others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.tools.board.venues import kalshi
from chordesk.tools.board.venues.funding import FundingRate
from chordesk.tools.board.venues.hyperliquid import Hyperliquid
from chordesk.tools.board.venues.kalshi import Kalshi
from chordesk.tools.board.venues.manifold import Manifold
from chordesk.tools.board.venues.markets import NO_FEE, BookLevel, EventVenue, FeeTerms, Pool
from chordesk.tools.board.venues.polymarket import Polymarket
from tests.fakes import venues
from tests.fakes.venues import FarVenues, book_of, in_days, kalshi_row, manifold_row, paid_row, polymarket_row

TICKER, TITLE = "KXRAIN-26MAY-T5", "Will it rain in May?"
IDS = {"manifold": "m1", "polymarket": "7", "kalshi": TICKER}
WIRES: dict[str, Callable[[str], EventVenue]] = {
    "manifold": Manifold,
    "polymarket": lambda url: Polymarket(url, url),
    "kalshi": Kalshi,
}
PAST = in_days(-1)


@pytest.fixture
def far(far: FarVenues) -> FarVenues:
    """With a market of each venue."""
    far.manifold["m1"] = manifold_row("m1", TITLE, 0.25)
    far.polymarket["7"] = polymarket_row("7", TITLE, 0.40, 0.44)
    far.kalshi[TICKER] = kalshi_row(TICKER, TITLE, "0.4000", "0.4400", yes_sub_title="Above 5 inches")
    return far


def read(far: FarVenues, name: str, **fields: Any) -> Any:
    """The venue's market with these fields changed."""
    getattr(far, name)[IDS[name]].update(fields)
    return WIRES[name](far.url).market(IDS[name])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "manifold",
            {
                "question": TITLE, "probability": 0.25, "basis": "the pool's probability", "volume": 2500.5,
                "pool": Pool(750.0, 250.0, 0.5), "fee": NO_FEE, "play_money": True,
                "rules": "Resolves by the official figure.",
            },
        ),
        (
            "polymarket",
            {
                "question": TITLE, "probability": 0.42, "basis": "midpoint of bid and ask", "bid": 0.40, "ask": 0.44,
                "volume": 12345.67, "token": "71", "fee": FeeTerms(0.04), "play_money": False,
                "url": "https://polymarket.com/market/market-7",
            },
        ),
        (
            "kalshi",
            {
                "question": f"{TITLE} (Above 5 inches)", "probability": 0.42, "basis": "midpoint of bid and ask",
                "bid": 0.40, "ask": 0.44, "volume": 4321.0, "fee": kalshi.FEE,
                "url": "https://kalshi.com/markets/kxrain",
            },
        ),
    ],
)  # fmt: skip
def test_a_market_is_read_as_documented(far: FarVenues, name: str, expected: dict[str, Any]) -> None:
    market = read(far, name)
    assert {field: getattr(market, field) for field in expected} == expected
    assert (market.venue, market.id, market.state, market.outcome) == (name, IDS[name], "open", None)
    assert abs(market.closes_at - in_days(30)) < dt.timedelta(minutes=5)


ORACLE = {"closed": True, "umaResolutionStatus": "resolved"}


@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [
        ("manifold", {"probability": "0.5"}, "probability"),
        ("manifold", {"probability": 1.4}, "probability"),
        ("manifold", {"isResolved": "no"}, "isResolved"),
        ("manifold", {"closeTime": "2026-01-01"}, "closeTime"),
        ("manifold", {"question": 5}, "question"),
        ("manifold", {"pool": [1, 2]}, "pool"),
        ("manifold", {"isResolved": True, "resolution": "MKT"}, "resolutionProbability"),
        ("manifold", {"isResolved": True, "resolution": "PERHAPS"}, "resolution"),
        ("polymarket", {"outcomes": ["Yes", "No"]}, "outcomes"),
        ("polymarket", {"outcomes": '["Yes", 1]'}, "outcomes"),
        ("polymarket", {"clobTokenIds": '["7'}, "clobTokenIds"),
        ("polymarket", {"bestBid": "0.4"}, "bestBid"),
        ("polymarket", {"volume": 12.5}, "volume"),
        ("polymarket", {"closed": None}, "closed"),
        ("polymarket", {"endDate": "in May"}, "endDate"),
        ("polymarket", {"feeSchedule": {"rate": "0.04", "exponent": 1}}, "feeSchedule.rate"),
        ("polymarket", {**ORACLE, "outcomePrices": '["x", "y"]'}, "outcomePrices"),
        ("polymarket", {**ORACLE, "outcomePrices": '["1"]'}, "outcomePrices"),
        ("kalshi", {"yes_bid_dollars": 40}, "market.yes_bid_dollars"),
        ("kalshi", {"yes_bid_dollars": 0.4}, "market.yes_bid_dollars"),
        ("kalshi", {"yes_ask_dollars": "1.4000"}, "market.yes_ask_dollars"),
        ("kalshi", {"yes_ask_dollars": "-"}, "market.yes_ask_dollars"),
        ("kalshi", {"volume_fp": 4321}, "market.volume_fp"),
        ("kalshi", {"status": None}, "market.status"),
        ("kalshi", {"close_time": 1_700_000_000}, "market.close_time"),
        ("kalshi", {"status": "finalized", "result": ""}, "result"),
    ],
)
def test_a_field_that_is_not_as_documented_is_named(
    far: FarVenues, name: str, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(MarketUnavailable, match=f"{name.title()}'s answer could not be read: {field}: "):
        read(far, name, **fields)


@pytest.mark.parametrize(
    ("name", "fields", "basis"),
    [
        ("manifold", {"probability": None, "pool": None}, "no probability"),
        ("polymarket", {"bestBid": None, "bestAsk": None}, "no bid and no ask"),
        ("polymarket", {"bestBid": 0, "bestAsk": 1}, "no bid and no ask"),
        ("polymarket", {"bestBid": 0.4, "bestAsk": 1}, "no ask"),
        ("polymarket", {"bestBid": 0, "bestAsk": 0.4}, "no bid"),
        ("polymarket", {"bestBid": 0.01, "bestAsk": 0.99}, "no price between a bid of 0.01 and an ask of 0.99"),
        ("kalshi", {"yes_bid_dollars": "0.0000", "yes_ask_dollars": "1.0000"}, "no bid and no ask"),
        ("kalshi", {"yes_bid_dollars": "0.0000", "yes_ask_dollars": "0.0500"}, "no bid"),
        ("kalshi", {"yes_bid_dollars": "0.9500", "yes_ask_dollars": "1.0000"}, "no ask"),
        ("kalshi", {"yes_bid_dollars": None, "yes_ask_dollars": None}, "no bid and no ask"),
    ],
)
def test_a_market_without_a_price_has_none(far: FarVenues, name: str, fields: dict[str, Any], basis: str) -> None:
    market = read(far, name, **fields)
    assert (market.probability, market.pool, market.basis) == (None, None, basis)


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("manifold", {"isResolved": True, "resolution": "YES"}, ("resolved", 1.0)),
        ("manifold", {"isResolved": True, "resolution": "NO"}, ("resolved", 0.0)),
        ("manifold", {"isResolved": True, "resolution": "MKT", "resolutionProbability": 0.3}, ("resolved", 0.3)),
        ("manifold", {"isResolved": True, "resolution": "CANCEL"}, ("resolved", "void")),
        ("manifold", {"closeTime": int(PAST.timestamp() * 1000)}, ("closed", None)),
        ("polymarket", {**ORACLE, "outcomePrices": '["1", "0"]'}, ("resolved", 1.0)),
        ("polymarket", {**ORACLE, "outcomePrices": '["0", "1"]'}, ("resolved", 0.0)),
        ("polymarket", {**ORACLE, "outcomePrices": '["0.5", "0.5"]'}, ("resolved", 0.5)),
        ("polymarket", {**ORACLE, "outcomePrices": '["0.9995", "0.0005"]'}, ("closed", None)),
        ("polymarket", {**ORACLE, "outcomePrices": '["0", "0"]'}, ("closed", None)),
        ("polymarket", {**ORACLE, "umaResolutionStatus": "proposed", "outcomePrices": '["1", "0"]'}, ("closed", None)),
        ("polymarket", {**ORACLE, "umaResolutionStatus": "disputed", "outcomePrices": '["1", "0"]'}, ("closed", None)),
        ("polymarket", {**ORACLE, "umaResolutionStatus": None, "outcomePrices": '["1", "0"]'}, ("closed", None)),
        ("polymarket", {"endDate": f"{PAST:%Y-%m-%dT%H:%M:%SZ}"}, ("closed", None)),
        ("kalshi", {"status": "inactive"}, ("closed", None)),
        ("kalshi", {"status": "closed"}, ("closed", None)),
        ("kalshi", {"status": "determined", "result": "yes"}, ("closed", None)),
        ("kalshi", {"status": "finalized", "result": "yes"}, ("resolved", 1.0)),
        ("kalshi", {"status": "finalized", "result": "no"}, ("resolved", 0.0)),
        ("kalshi", {"status": "settled", "result": "scalar", "settlement_value_dollars": "0.3500"}, ("resolved", 0.35)),
        ("kalshi", {"status": "finalized", "result": "void"}, ("resolved", "void")),
    ],
)  # fmt: skip
def test_a_market_is_resolved_once_it_is_final(
    far: FarVenues, name: str, fields: dict[str, Any], expected: tuple[str, Any]
) -> None:
    market = read(far, name, **fields)
    assert (market.state, market.outcome) == expected
    assert market.probability is None or name == "manifold"


def test_odd_fields_of_manifold_are_read(far: FarVenues) -> None:
    assert not read(far, "manifold", token="CASH").play_money, "prize cash buys something"
    assert read(far, "manifold", closeTime=10**17).closes_at is None, "beyond the calendar"


@pytest.mark.parametrize(
    ("fields", "fee"),
    [
        ({"feesEnabled": False, "feeSchedule": None}, NO_FEE),
        ({"feeSchedule": None}, None),
        ({"feeSchedule": {"rate": 0.25, "exponent": 2}}, FeeTerms(0.25, exponent=2.0)),
    ],
)
def test_a_fee_that_is_not_stated_is_unknown(far: FarVenues, fields: dict[str, Any], fee: FeeTerms | None) -> None:
    assert read(far, "polymarket", **fields).fee == fee


def test_a_book_has_the_best_level_first_and_a_pool_none(far: FarVenues) -> None:
    far.books["71"] = book_of([("0.38", "50"), ("0.40", "20.5")], [("0.47", "9"), ("0.44", "30")])
    poly, kal, mani = (WIRES[name](far.url) for name in ("polymarket", "kalshi", "manifold"))
    book = poly.book(poly.market("7"))
    assert book is not None
    assert book.bids == (BookLevel(0.40, 20.5), BookLevel(0.38, 50.0))
    assert book.asks == (BookLevel(0.44, 30.0), BookLevel(0.47, 9.0))
    assert book.offers("no") == (BookLevel(0.60, 20.5), BookLevel(0.62, 50.0))
    best = kal.book(kal.market(TICKER))
    assert best is not None
    assert (best.bids, best.asks) == ((BookLevel(0.40, 120.0),), (BookLevel(0.44, 80.0),))
    del far.kalshi[TICKER]["yes_ask_size_fp"]
    unsized = kal.book(kal.market(TICKER))
    assert unsized is not None
    assert unsized.asks == (), "a level without a size is no depth"
    assert mani.book(mani.market("m1")) is None
    far.polymarket["7"]["clobTokenIds"] = None
    with pytest.raises(MarketError, match="7 has no order book"):
        poly.book(poly.market("7"))


@pytest.mark.parametrize(("price", "size"), [(0.44, "30"), ("0.44", 30), ("1.44", "30"), ("nan", "30"), ("x", "1")])
def test_a_level_that_is_not_as_documented_is_an_error(far: FarVenues, price: Any, size: Any) -> None:
    far.books["71"] = book_of([], [(price, size)])
    venue = WIRES["polymarket"](far.url)
    with pytest.raises(MarketUnavailable, match=r"Polymarket's answer could not be read: asks\.0\."):
        venue.book(venue.market("7"))


def test_a_search_leaves_out_and_counts_other_outcomes(far: FarVenues, monkeypatch: pytest.MonkeyPatch) -> None:
    far.manifold["m2"] = manifold_row("m2", "Which month has rain?", outcomeType="MULTIPLE_CHOICE")
    del far.manifold["m2"]["probability"]
    far.manifold["m2"]["pool"] = {"a": 1.0, "b": 2.0, "c": 3.0}
    far.polymarket["8"] = polymarket_row("8", "Rain: how much?", outcomes='["Much", "Little"]')
    far.polymarket["9"] = polymarket_row("9", "Will it rain in April?", closed=True)
    monkeypatch.setattr(venues, "PAGE", 2)
    far.kalshi |= {f"KXSUN-{number}": kalshi_row(f"KXSUN-{number}", f"Sun on day {number}?") for number in range(4)}
    far.kalshi["KXRAIN-S"] = kalshi_row("KXRAIN-S", "How much rain in May?", market_type="scalar")
    for name, term in (("manifold", "rain"), ("polymarket", "rain"), ("kalshi", "May rain")):
        found = WIRES[name](far.url).search(term, 10)
        assert ([market.id for market in found.markets], found.left_out, found.whole) == ([IDS[name]], 1, True), name
    assert far.asked_for("/trade-api/v2/markets") == 3, "its pages"
    assert far.asked[-1][1]["mve_filter"] == "exclude"
    with pytest.raises(MarketError, match="m2 has other outcomes than YES and NO: MULTIPLE_CHOICE"):
        WIRES["manifold"](far.url).market("m2")
    assert [market.id for market in WIRES["polymarket"](far.url).search("", 10).markets] == ["7"], "those that run"


def test_a_search_that_meets_its_limit_is_not_whole(far: FarVenues, monkeypatch: pytest.MonkeyPatch) -> None:
    far.manifold["m3"] = manifold_row("m3", "Will it rain in June?")
    far.polymarket["8"] = polymarket_row("8", "Will it rain in June?")
    for name in ("manifold", "polymarket"):
        found = WIRES[name](far.url).search("rain", 1)
        assert (len(found.markets), found.whole) == (1, False)
    monkeypatch.setattr(venues, "PAGE", 1)
    far.kalshi |= {f"KXSUN-{number}": kalshi_row(f"KXSUN-{number}", f"Sun on day {number}?") for number in range(15)}
    for seconds, pages in ((30.0, kalshi._PAGES), (0.0, 1)):
        monkeypatch.setattr(kalshi, "SEARCH_SECONDS", seconds)
        before = far.asked_for("/trade-api/v2/markets")
        found = WIRES["kalshi"](far.url).search("rain", 10)
        assert (len(found.markets), found.whole) == (1, False)
        assert far.asked_for("/trade-api/v2/markets") - before == pages


def test_a_market_settled_long_ago_is_found_where_it_is_kept(far: FarVenues) -> None:
    far.kalshi_old["KXOLD-1"] = kalshi_row("KXOLD-1", "Was it?", status="finalized", result="no")
    assert Kalshi(far.url).market("KXOLD-1").outcome == 0.0
    with pytest.raises(MarketError, match="Kalshi has nothing at"):
        Kalshi(far.url).market("KXNONE-1")


AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def predicted(rate: Any, **more: Any) -> dict[str, Any]:
    return {"fundingRate": rate, "nextFundingTime": int(AT.timestamp() * 1000), **more}


def test_rates_of_three_venues_come_in_one_answer(far: FarVenues) -> None:
    bitcoin = [
        ["BinPerp", predicted("0.0001", fundingIntervalHours=8)],
        ["HlPerp", predicted("0.0000125")],
        ["BybitPerp", predicted("-0.0002")],
    ]
    far.predicted = [["BTC", bitcoin], ["NEW", [["BinPerp", None], ["HlPerp", predicted("0.00005")]]]]
    found = Hyperliquid(far.url).predicted()
    assert found["BTC"] == (
        FundingRate("BinPerp", 0.0001, 8.0, AT),
        FundingRate("HlPerp", 0.0000125, 1.0, AT),
        FundingRate("BybitPerp", -0.0002, None, AT),
    )
    assert [rate.venue for rate in found["NEW"]] == ["HlPerp"]
    assert far.asked == [("/info", {"type": "predictedFundings"})]


@pytest.mark.parametrize(
    "answer",
    [
        [["BTC", [["HlPerp", predicted(0.0001)]]]],
        [["BTC", [["HlPerp", {"fundingRate": "0.0001"}]]]],
        [["BTC", [["HlPerp"]]]],
        [["BTC"]],
        {"BTC": []},
        "BTC",
    ],
)
def test_rates_that_are_not_as_documented_are_an_error(far: FarVenues, answer: Any) -> None:
    far.predicted = answer
    with pytest.raises(MarketUnavailable, match="Hyperliquid's answer could not be read: "):
        Hyperliquid(far.url).predicted()


def test_a_history_of_rates_is_read_page_by_page(far: FarVenues) -> None:
    hours = [AT + dt.timedelta(hours=hour) for hour in range(720)]
    far.paid["BTC"] = [paid_row("BTC", at, f"{number / 1e6:.6f}") for number, at in enumerate(hours)]
    venue = Hyperliquid(far.url)
    paid = venue.history("BTC", AT, hours[-1])
    assert [one.at for one in paid] == hours
    assert paid[719].rate == pytest.approx(719e-6)
    assert len(far.asked) == 2
    assert venue.history("NONE", AT, hours[-1]) == ()
    far.paid["BTC"] = [{**paid_row("BTC", AT, "0.1"), "fundingRate": 0.1}]
    with pytest.raises(MarketUnavailable, match=r"Hyperliquid's answer could not be read: 0\.fundingRate: "):
        venue.history("BTC", AT, hours[-1])
