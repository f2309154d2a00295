"""Yahoo's listings of other exchanges and its pairs: units, days and stamps, by the real yfinance on a stand-in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.errors import MarketError
from chordesk.tools.market.price_steps import listing_terms
from chordesk.tools.market.units import REMEDY
from chordesk.tools.market.yahoo.market import YahooMarket, build_yahoo
from tests.fakes.yahoo import FarYahoo
from tests.tools.market.far_market import StillClock

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

LONDON = {"currency": "GBp", "exchangeTimezoneName": "Europe/London", "exchangeName": "LSE"}
LISTED: dict[str, dict[str, Any]] = {
    "AZN.L": LONDON,
    "CSPX.L": {**LONDON, "currency": "USD", "instrumentType": "ETF"},
    "7203.T": {"currency": "JPY", "exchangeTimezoneName": "Asia/Tokyo", "exchangeName": "JPX"},
    "0700.HK": {"currency": "HKD", "exchangeTimezoneName": "Asia/Hong_Kong", "exchangeName": "HKG"},
    "M&M.NS": {"currency": "INR", "exchangeTimezoneName": "Asia/Kolkata", "exchangeName": "NSI"},
    "BTC-USD": {"exchangeTimezoneName": "UTC", "exchangeName": "CCC", "instrumentType": "CRYPTOCURRENCY"},
}
FRIDAY = dt.date(2024, 3, 15)


Open = Callable[[str, str], YahooMarket]


@pytest.fixture
def at(far: FarYahoo, tmp_path: Path) -> Open:
    """Return a market of an exchange at a moment."""
    far.listed.update({symbol: dict(stated) for symbol, stated in LISTED.items()})
    return lambda exchange, moment: build_yahoo(tmp_path, StillClock(exchange, moment), far.session())


def chart(far: FarYahoo, symbol: str, closes: list[float], last: dt.date = FRIDAY) -> list[dt.date]:
    """Give a symbol bars of calendar days that end on a day; the volume is 1000."""
    dates = [last - dt.timedelta(days=back) for back in reversed(range(len(closes)))]
    far.charts[symbol] = [(day, close, close, close, close, 1000) for day, close in zip(dates, closes, strict=True)]
    return dates


def pay(far: FarYahoo, symbol: str, day: dt.date, amount: float, adjusted: list[float]) -> None:
    stamp = int(dt.datetime.combine(day, dt.time(8), dt.UTC).timestamp())
    far.events[symbol] = {"dividends": {str(stamp): {"amount": amount, "date": stamp}}}
    far.adjusted[symbol] = adjusted


def test_pence_are_pounds_behind_the_wire(at: Open, far: FarYahoo) -> None:
    day = chart(far, "AZN.L", [10_000.0, 9_900.0, 9_900.0])[1]
    pay(far, "AZN.L", day, 100.0, [9_900.0, 9_900.0, 9_900.0])
    far.infos["AZN.L"] = {
        "currency": "GBp", "targetMeanPrice": 12_000.0, "trailingEps": 3.2, "marketCap": 1.5e11, "shortName": "Astra",
    }  # fmt: skip
    market = at("XLON", "2024-03-15T17:00+00:00")
    assert market.traded("AZN.L", 3).close.tolist() == [100, 99, 99]
    assert market.bars("AZN.L", 3).close.tolist() == [99, 99, 99]
    assert [one.dividend for one in market.actions("AZN.L", day - dt.timedelta(days=1))] == [1.0]
    assert market.quote("AZN.L").price == 99
    assert market.section("AZN.L", "ratings")["targetMean"] == 120
    assert market.section("AZN.L", "fundamentals")["marketCap"] == 1.5e11
    with pytest.raises(MarketError, match="no earnings"):
        market.section("AZN.L", "earnings")
    listing = market.listing("AZN.L")
    assert (listing.currency, listing.exchange, listing.kind) == ("GBP", "XLON", "share")


def test_a_listing_has_the_currency_of_its_prices(at: Open, far: FarYahoo) -> None:
    chart(far, "CSPX.L", [520.0])
    far.infos["CSPX.L"] = {"currency": "USD", "shortName": "S&P 500", "quoteType": "ETF"}
    market = at("XLON", "2024-03-15T17:00+00:00")
    listing = market.listing("CSPX.L")
    assert (market.quote("CSPX.L").price, listing.currency, listing.kind) == (520, "USD", "etf")
    chart(far, "VUSD.L", [96.0])
    far.listed["VUSD.L"] = LISTED["CSPX.L"]
    assert market.listing("VUSD.L").currency == "USD", "without a page of it"


@pytest.mark.parametrize(
    ("symbol", "exchange", "now", "known", "stamp"),
    [
        # Within the session its bar is no bar yet, and its price is of now; after it, of the close there.
        ("AZN.L", "XLON", "2024-03-15T16:00+00:00", 14, "2024-03-15T16:00:00+00:00"),
        ("AZN.L", "XLON", "2024-03-15T20:00+00:00", 15, "2024-03-15T16:30:00+00:00"),
        ("7203.T", "XTKS", "2024-03-15T14:59+09:00", 14, "2024-03-15T14:59:00+09:00"),
        ("7203.T", "XTKS", "2024-03-15T22:00+09:00", 15, "2024-03-15T15:00:00+09:00"),
        # Seen from New York's clock, ten hours after Tokyo closed and while London trades.
        ("7203.T", "XNYS", "2024-03-15T10:59-04:00", 15, "2024-03-15T15:00:00+09:00"),
        ("AZN.L", "XNYS", "2024-03-15T11:00-04:00", 14, "2024-03-15T15:00:00+00:00"),
        ("0700.HK", "XHKG", "2024-03-15T17:00+08:00", 15, "2024-03-15T16:00:00+08:00"),
        ("M&M.NS", "XNSE", "2024-03-15T16:00+05:30", 15, "2024-03-15T15:30:00+05:30"),
        ("BTC-USD", "CRYPTO", "2024-03-15T23:59+00:00", 14, "2024-03-15T23:59:00+00:00"),
    ],
)
def test_bars_and_stamps_are_of_the_exchange(
    at: Open, far: FarYahoo, symbol: str, exchange: str, now: str, known: int, stamp: str
) -> None:
    """Nothing is later than the clock: the next day's row is there, and is not seen."""
    chart(far, symbol, [101.0, 102.0, 103.0], FRIDAY + dt.timedelta(days=1))
    market = at(exchange, now)
    assert market.bars(symbol, 5).dates[-1].day == known
    quote = market.quote(symbol)
    assert (quote.price, quote.at.isoformat()) == (1.02 if symbol == "AZN.L" else 102, stamp)


def test_a_session_that_is_over_fills_nothing_the_day_after(at: Open, far: FarYahoo) -> None:
    chart(far, "7203.T", [3_000.0])
    with pytest.raises(MarketError, match=r"7203.T has not traded on 2024-03-18"):
        at("XTKS", "2024-03-18T10:00+09:00").fill_price("7203.T")


@pytest.mark.parametrize(
    ("closes", "says"),
    [
        ([9_100.0, 91.5, 9_150.0], "it closed at 91.5 on"),
        ([91.0, 91.5, 9_150.0], "it closed at 9150 on"),
        ([9_100.0, 9_150.0, 9_150.0], "its last price is stated as 91.6, and its last close is 9150"),
    ],
)
def test_a_listing_that_flips_between_pence_and_pounds_is_refused(
    at: Open, far: FarYahoo, closes: list[float], says: str
) -> None:
    chart(far, "AZN.L", closes)
    if closes[1:] == [9_150.0, 9_150.0]:
        far.listed["AZN.L"]["regularMarketPrice"] = 91.6
    market = at("XLON", "2024-03-15T17:00+00:00")
    for ask in (market.quote, market.fill_price, lambda symbol: market.bars(symbol, 5)):
        with pytest.raises(MarketError, match=says) as caught:
            ask("AZN.L")
        assert caught.value.remedy == REMEDY


def test_a_bar_that_is_in_two_units_is_refused(at: Open, far: FarYahoo) -> None:
    far.charts["AZN.L"] = [(FRIDAY, 91.0, 9_160.0, 91.0, 9_150.0, 1)]
    with pytest.raises(MarketError, match=r"its bar of 2024-03-15 goes from 91 to 9160"):
        at("XLON", "2024-03-15T17:00+00:00").quote("AZN.L")


@pytest.mark.parametrize(
    ("amount", "closes", "adjusted"),
    [
        (1.0, [10_000.0, 9_900.0], [9_999.0, 9_900.0]),  # pounds beside pence
        (100.0, [100.0, 99.0], [99.0, 99.0]),  # pence beside pounds
        (10.0, [10_000.0, 9_000.0], [9_000.0, 9_000.0]),  # a tenth lost to it, and a thousandth stated
    ],
)
def test_a_dividend_of_another_unit_than_the_price_is_refused(
    at: Open, far: FarYahoo, amount: float, closes: list[float], adjusted: list[float]
) -> None:
    day = chart(far, "AZN.L", closes)[-1]
    pay(far, "AZN.L", day, amount, adjusted)
    with pytest.raises(MarketError, match=f"its dividend of {day} is stated as {amount:g} beside a price of"):
        at("XLON", "2024-03-15T17:00+00:00").bars("AZN.L", 5)


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"exchangeTimezoneName": "America/New_York", "exchangeName": "NYQ"}, "by the clock of America/New_York"),
        ({"exchangeName": "Toronto Stock Exchange"}, r"on the exchange Toronto Stock Exchange \(Toronto\)"),
        ({"currency": "??p"}, r"priced in \?\?p, which is no currency"),
        ({"currency": ""}, "Yahoo states no currency of AZN.L"),
    ],
)
def test_a_name_that_is_not_where_its_suffix_says_is_refused(
    at: Open, far: FarYahoo, stated: dict[str, str], says: str
) -> None:
    chart(far, "AZN.L", [9_100.0])
    far.listed["AZN.L"] |= stated
    with pytest.raises(MarketError, match=says):
        at("XLON", "2024-03-15T17:00+00:00").quote("AZN.L")


def test_a_pair_in_another_money_than_its_symbol_says_is_refused(at: Open, far: FarYahoo) -> None:
    chart(far, "BTC-USD", [60_000.0])
    far.listed["BTC-USD"]["currency"] = "EUR"
    market = at("CRYPTO", "2024-03-15T12:00+00:00")
    for ask in (market.listing, market.quote):
        with pytest.raises(MarketError, match="BTC-USD is priced in USD by its symbol, and in EUR at Yahoo"):
            ask("BTC-USD")


@pytest.mark.parametrize("rows", [[], [(FRIDAY, None, None, None, None, 0)]])
def test_a_chart_without_a_price_is_of_an_unknown_symbol(at: Open, far: FarYahoo, rows: list[Any]) -> None:
    far.charts["AZN.L"] = rows
    market = at("XLON", "2024-03-15T17:00+00:00")
    for ask in (market.quote, lambda symbol: market.bars(symbol, 5)):
        with pytest.raises(MarketError, match=r"unknown symbol AZN\.L"):
            ask("AZN.L")
    assert market.listing("AZN.L").currency == "GBP"


def test_pairs_have_weekends(at: Open, far: FarYahoo) -> None:
    days = chart(far, "BTC-USD", [60_000.0 + n for n in range(5)], dt.date(2024, 3, 18))
    market = at("CRYPTO", "2024-03-18T12:00+00:00")
    assert list(market.bars("BTC-USD", 4).dates) == days[:4] == list(market.sessions(4))
    assert (market.quote("BTC-USD").price, market.fill_price("BTC-USD")) == (60_004, market.quote("BTC-USD"))
    far.infos["BTC-USD"] = {"currency": "USD", "shortName": "Bitcoin", "quoteType": "CRYPTOCURRENCY"}
    terms = listing_terms(market.listing("BTC-USD"))
    assert (terms.why_not, terms.price(Decimal("60004.567"), ROUND_FLOOR)) == (None, Decimal("60004.56"))
    assert terms.quantity(Decimal("0.123456789"), opens=True) == Decimal("0.12345678")


@pytest.mark.parametrize(("hint", "opens"), [(8, True), (0, True), ("many", False), (-3, False), (2.5, False)])
def test_a_pair_is_opened_at_decimals_that_are_stated(at: Open, far: FarYahoo, hint: object, opens: bool) -> None:
    chart(far, "BTC-USD", [60_000.0])
    far.listed["BTC-USD"]["priceHint"] = hint
    terms = listing_terms(at("CRYPTO", "2024-03-15T12:00+00:00").listing("BTC-USD"))
    assert opens or "the price steps of BTC-USD are not known" in (terms.why_not or "")
    assert (terms.why_not is None) == opens


def test_no_list_of_new_york_is_the_universe_of_another_exchange(at: Open) -> None:
    with pytest.raises(MarketError, match=r"sp500 is of New York, and this run is of XLON \(London\)"):
        at("XLON", "2024-03-15T17:00+00:00").universe("sp500")
