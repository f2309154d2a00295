from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models.errors import MarketError, NotConfigured
from chordesk.tools.market.clock import ReplayClock, exchange_hours
from chordesk.tools.market.protocol import ClosedSet, FillSource, MarketData, Prefetching
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from tests.tools.conftest import Raw


def at(data: ReplayData, day: str) -> ReplayMarket:
    return ReplayMarket(data, ReplayClock(dt.date.fromisoformat(day)))


def test_it_is_a_market_and_a_fill_source(market: ReplayMarket) -> None:
    as_market: MarketData = market
    as_fills: FillSource = market
    assert as_market.name == "replay"
    assert as_fills is market
    assert isinstance(market, ClosedSet)
    assert not isinstance(market, Prefetching)


def test_the_day_s_own_bar_is_the_last(market: ReplayMarket, raw: Raw) -> None:
    bars = market.bars("AAPL", 5)
    assert [str(day) for day in bars.dates] == ["2010-08-06", "2010-08-09", "2010-08-10", "2010-08-11", "2010-08-12"]
    assert bars.close.tolist() == [raw["AAPL"][day].close for day in bars.dates]
    assert bars.open.tolist() == [raw["AAPL"][day].open for day in bars.dates]
    assert bars.volume.tolist() == [raw["AAPL"][day].volume * 100 for day in bars.dates]
    assert not bars.adjusted


def test_bars_cannot_be_written_to(market: ReplayMarket) -> None:
    with pytest.raises(ValueError, match="read-only"):
        market.bars("AAPL", 5).close[0] = 1.0


def test_fewer_bars_than_asked_for_are_all_there_are(market: ReplayMarket) -> None:
    bars = market.bars("QEP", 500)
    assert bars.dates[0] == dt.date(2010, 7, 1)
    assert len(bars) == len(bars.dates) == len(bars.close)


def test_a_symbol_is_unknown_before_its_first_bar(data: ReplayData) -> None:
    before, after = at(data, "2010-06-30"), at(data, "2010-07-01")
    with pytest.raises(MarketError, match="unknown symbol QEP"):
        before.bars("QEP", 5)
    assert before.unknown(["AAPL", "QEP", "NOPE"]) == ["QEP", "NOPE"]
    assert "QEP" not in {listing.symbol for listing in before.universe("sp500")}
    assert after.bars("QEP", 5).dates == [dt.date(2010, 7, 1)]
    assert "QEP" in {listing.symbol for listing in after.universe("sp500")}


def test_the_universe_has_all_names_at_the_default_date(market: ReplayMarket) -> None:
    listings = market.universe("sp500")
    assert len(listings) == 524
    assert {listing.symbol: listing.sector for listing in listings}["BRK.B"] == "Financials"
    with pytest.raises(MarketError, match=r"'dax'.*sp500"):
        market.universe("dax")


def test_a_symbol_without_a_description_has_none(market: ReplayMarket) -> None:
    listing = market.listing("WYE")
    assert (listing.symbol, listing.name, listing.sector) == ("WYE", None, None)
    with pytest.raises(MarketError, match="unknown symbol NOPE"):
        market.listing("NOPE")


def test_a_quote_is_the_newest_close(market: ReplayMarket, raw: Raw) -> None:
    today = market.quote("AAPL")
    assert (today.price, today.at) == (raw["AAPL"][dt.date(2010, 8, 12)].close, market.clock.now())
    older = market.quote("MSFT")  # no row on 2010-08-12
    assert older.price == raw["MSFT"][dt.date(2010, 8, 11)].close
    assert older.at == exchange_hours().close_of(dt.date(2010, 8, 11))


def test_a_name_that_left_the_market_has_no_quote(data: ReplayData) -> None:
    assert at(data, "2010-07-01").quote("XTO").price > 0  # its last bar is of 2010-06-25
    with pytest.raises(MarketError, match="XTO has not traded since 2010-06-25"):
        at(data, "2010-07-12").quote("XTO")


def test_the_replay_names_the_data_that_it_lacks(market: ReplayMarket) -> None:
    with pytest.raises(NotConfigured, match="not available: configure DESK_MARKET=yahoo for headlines"):
        market.headlines("AAPL", 5)
    with pytest.raises(NotConfigured, match="not available: configure DESK_MARKET=yahoo for options"):
        market.section("AAPL", "options")


def test_an_order_fills_at_the_next_session_s_open(data: ReplayData, raw: Raw) -> None:
    quote = at(data, "2010-08-13").fill_price("AAPL")
    assert quote is not None
    assert quote.price == raw["AAPL"][dt.date(2010, 8, 16)].open
    assert quote.at.isoformat() == "2010-08-16T09:30:00-04:00"


def test_a_session_that_the_data_lack_is_passed_over(data: ReplayData, raw: Raw) -> None:
    quote = at(data, "2010-08-17").fill_price("AAPL")
    assert quote is not None
    assert (quote.price, quote.at.date()) == (raw["AAPL"][dt.date(2010, 8, 19)].open, dt.date(2010, 8, 19))


def test_no_fill_without_a_further_session_or_a_trade_in_it(data: ReplayData) -> None:
    assert at(data, "2010-08-20").fill_price("AAPL") is None
    with pytest.raises(MarketError, match="MSFT does not trade in the next session, 2010-08-12"):
        at(data, "2010-08-11").fill_price("MSFT")
    for day, unknown in (("2010-08-11", "NOPE"), ("2010-06-30", "QEP")):
        with pytest.raises(MarketError, match=f"unknown symbol {unknown}"):
            at(data, day).fill_price(unknown)


def test_no_fill_in_a_session_without_volume(data: ReplayData) -> None:
    volume = data.columns.volume.copy()
    volume[data.rows("IBM", dt.date(2010, 8, 13)).stop - 1] = 0.0
    dead = data.with_columns(data.columns._replace(volume=volume))
    with pytest.raises(MarketError, match="IBM does not trade in the next session, 2010-08-13"):
        at(dead, "2010-08-12").fill_price("IBM")


def test_a_fill_price_has_the_range_of_its_session(data: ReplayData) -> None:
    quote = at(data, "2010-08-12").fill_price("IBM")
    row = data.rows("IBM", dt.date(2010, 8, 13)).stop - 1
    assert quote is not None
    assert (quote.low, quote.high) == (data.columns.low[row], data.columns.high[row])
    assert quote.low <= quote.price <= quote.high
