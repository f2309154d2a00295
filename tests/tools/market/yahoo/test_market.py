"""The real yfinance against a loopback stand-in of Yahoo's endpoints."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from chordesk.models.errors import MarketError, MarketUnavailable, NotConfigured
from chordesk.models.money import Money
from chordesk.models.settings import Settings
from chordesk.models.text import NEW_YORK
from chordesk.tools.market import fetching
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.fetching import Pace, Source
from chordesk.tools.market.fx import rate_into
from chordesk.tools.market.home import TRADED_REMEDY
from chordesk.tools.market.prices import chain_of, quote_of, share_of
from chordesk.tools.market.protocol import Action, ChainSource, ClosedSet, OptionSource, Prefetching
from chordesk.tools.market.replay import market as replay_data
from chordesk.tools.market.universe import is_symbol
from chordesk.tools.market.yahoo.market import YahooMarket, build_yahoo
from tests.builders import uninstalled
from tests.fakes.yahoo import FarYahoo
from tests.tools.conftest import Call
from tests.tools.market.far_market import TODAY, FarClock, NowClock
from tests.tools.market.yahoo.conftest import days

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_bars_are_yahoo_s_and_end_at_the_last_session(market: YahooMarket, far: FarYahoo) -> None:
    tomorrow = TODAY + dt.timedelta(days=1)
    far.charts["AAPL"].append((tomorrow, 99, 99, 99, 99, 99))
    bars = market.bars("AAPL", 3)
    assert list(bars.dates) == days(3)
    assert bars.close.tolist() == [48, 49, 50]
    assert bars.open.tolist() == [47, 48, 49]
    assert bars.volume.tolist() == [1037, 1038, 1039]
    assert bars.adjusted
    assert market.quote("AAPL").price == 50
    day = days(3)
    far.charts["HOLE"] = [(day[0], 1, 1, 1, 1, 5), (day[1], None, None, None, None, None), (day[2], 2, 2, 2, 2, 5)]  # type: ignore[list-item]
    assert list(market.bars("HOLE", 9).dates) == [day[0], day[2]]


def test_prices_are_as_traded_and_adjusted_as_of_the_session(market: YahooMarket, far: FarYahoo) -> None:
    first, second, third = days(3)
    stamps = [int(dt.datetime.combine(day, dt.time(13, 30), dt.UTC).timestamp()) for day in (second, third)]
    far.charts["PAYS"] = [(first, 100, 100, 100, 100, 5), (second, 98, 98, 98, 98, 5), (third, 97, 97, 97, 97, 9)]
    far.adjusted["PAYS"] = [98.0, 98.0, 97.0]
    far.events["PAYS"] = {
        "dividends": {str(stamps[0]): {"amount": 2.0, "date": stamps[0]}},
        "splits": {str(stamps[1]): {"date": stamps[1], "numerator": 4, "denominator": 1, "splitRatio": "4:1"}},
    }  # type: ignore[dict-item]
    assert market.bars("PAYS", 9).close.tolist() == [98, 98, 97]
    assert market.traded("PAYS", 9).close.tolist() == [100, 98, 97]
    found = market.actions("PAYS", first)
    assert found == [Action(second, 1.0, 8.0, 100 / 98), Action(third, 4.0, 0.0, 4.0)], "for one share of that day"
    assert market.actions("PAYS", third) == []
    far.events["SPUN"] = {
        "splits": {
            str(stamps[1]): {"date": stamps[1], "numerator": 1281, "denominator": 1000, "splitRatio": "1281:1000"}
        },
    }  # type: ignore[dict-item]
    far.charts["SPUN"], far.adjusted["SPUN"] = far.charts["PAYS"], [98.0, 98.0, 97.0]
    assert market.actions("SPUN", first) == [Action(third, 1.0, pytest.approx(98 * 0.281), 1.281)], "a spin-off"


def test_a_quote_is_of_today_s_unfinished_bar(far: FarYahoo, tmp_path: Path) -> None:
    class Morning(FarClock):
        def now(self) -> dt.datetime:
            return super().now().replace(hour=11)

        def session(self, exchange: str | None = None) -> dt.date:
            return TODAY - dt.timedelta(days=1)

    market = build_yahoo(tmp_path, Morning(), far.session())
    assert market.bars("AAPL", 1).close.tolist() == [49]
    quote = market.quote("AAPL")
    assert (quote.price, quote.at) == (50, Morning().now())
    assert market.fill_price("AAPL") == quote


def test_an_old_price_is_no_quote_and_one_of_yesterday_fills_nothing(market: YahooMarket, far: FarYahoo) -> None:
    day = TODAY - dt.timedelta(days=1)
    far.charts |= {"GONE": [(TODAY - dt.timedelta(days=30), 5, 5, 5, 5, 5)], "QUIET": [(day, 5, 5, 5, 5, 5)]}
    with pytest.raises(MarketError, match="GONE has not traded since 2024-02-14"):
        market.quote("GONE")
    assert market.quote("QUIET").price == 5
    with pytest.raises(MarketError, match=f"QUIET has not traded on {TODAY}; its last price is of {day}"):
        market.fill_price("QUIET")


def test_the_sessions_are_those_of_the_exchange(market: YahooMarket) -> None:
    assert market.sessions(3) == tuple(dt.date(2024, 3, day) for day in (13, 14, 15))
    market.clock.day = dt.date(2024, 3, 18)  # a Monday
    assert market.sessions(2) == (dt.date(2024, 3, 15), dt.date(2024, 3, 18))


def test_answers_are_kept_in_memory_and_on_disk(market: YahooMarket, far: FarYahoo, tmp_path: Path) -> None:
    market.bars("AAPL", 3)
    asked = len(far.asked)
    market.bars("AAPL", 3)
    market.quote("AAPL")
    again = build_yahoo(tmp_path, FarClock(), far.session())
    assert again.bars("AAPL", 3).close.tolist() == [48, 49, 50]
    assert len(far.asked) == asked
    for file in (tmp_path / "cache" / "yahoo").iterdir():
        file.write_text("torn")
    build_yahoo(tmp_path, FarClock(), far.session()).bars("AAPL", 3)
    assert len(far.asked) > asked


def test_a_home_that_cannot_be_written_is_no_obstacle(far: FarYahoo, tmp_path: Path) -> None:
    market = build_yahoo(tmp_path, FarClock(), far.session())
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "yahoo").write_text("a file where a folder should be")
    assert market.bars("AAPL", 1).close.tolist() == [50]
    assert market.bars("AAPL", 1).close.tolist() == [50]
    assert far.asked_for("/v8/finance/chart/AAPL") <= 2  # time zone and history


def test_sections_hold_what_yahoo_gives(market: YahooMarket, far: FarYahoo) -> None:
    about = {"sector": "Technology", "industry": "Consumer Electronics"}
    far.infos["AAPL"] = {
        **about, "longName": "Apple Inc.", "trailingPE": 30.5, "forwardPE": "Infinity",
        "revenueGrowth": {"raw": 0.05, "fmt": "5%"}, "recommendationKey": "buy", "targetMeanPrice": 200,
        "mostRecentQuarter": 1_703_894_400,
    }  # fmt: skip
    listing = {"symbol": "AAPL", "name": "Apple Inc.", "company": None, "aliases": None, **about}
    assert market.listing("AAPL").model_dump() == listing
    fundamentals = market.section("AAPL", "fundamentals")
    assert (fundamentals["trailingPE"], fundamentals["forwardPE"], fundamentals["beta"]) == (30.5, None, None)
    assert (fundamentals["revenueGrowth"], fundamentals["knownAt"]) == (0.05, market.clock.now().isoformat())
    assert fundamentals["lastQuarter"] == market.section("AAPL", "earnings")["lastQuarter"] == "2023-12-30"
    ratings = market.section("AAPL", "ratings")
    assert (ratings["recommendation"], ratings["targetMean"]) == ("buy", 200.0)
    assert far.asked_for("/v10/finance/quoteSummary/AAPL") == 1
    far.infos["SPY"] = {"longName": "a fund", "currency": "USD", "recommendationKey": "none"}
    for section in ("fundamentals", "earnings", "ratings"):
        with pytest.raises(MarketError, match=f"Yahoo has no {section} of SPY"):
            market.section("SPY", section)


def chain(strikes: dict[float, float], volume: int | None) -> list[dict[str, object]]:
    common = {"volume": volume, "openInterest": 10, "lastTradeDate": 1_700_000_000}
    return [{"strike": strike, "impliedVolatility": iv, **common} for strike, iv in strikes.items()]


def listed(far: FarYahoo, puts: list[dict[str, object]], *expiries: dt.date, **more: object) -> None:
    """Let Yahoo list these puts on AAPL for each expiry."""
    stamps = [int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp()) for day in expiries]
    rows = {"calls": [], "puts": puts, **more}
    far.options["AAPL"] = {"expirationDates": stamps, "quote": {}, "options": [rows]}


def put(name: str, **figures: object) -> dict[str, object]:
    known = {"bid": 1.0, "ask": 1.2, "lastPrice": 1.1, "lastTradeDate": 1, "volume": 7, "openInterest": 70}
    return {"contractSymbol": name, "strike": 40, "impliedVolatility": 0.2, **known, **figures}


def test_options_are_of_the_first_expiry_far_enough(market: YahooMarket, far: FarYahoo) -> None:
    expiries = [TODAY + dt.timedelta(days=days) for days in (5, 19, 20, 60)]
    listed(far, chain({40: 0.6, 51: 0.4}, None), *expiries, calls=chain({40: 0.5, 51: 0.3, 60: 0.2}, 7))
    assert market.section("AAPL", "options") == {
        "expiry": str(expiries[2]), "atTheMoneyCallIV": 0.3, "atTheMoneyPutIV": 0.4, "callVolume": 21.0,
        "putVolume": None, "callOpenInterest": 30.0, "putOpenInterest": 20.0, "knownAt": market.clock.now().isoformat(),
    }  # fmt: skip
    far.options["MMM"] = {"expirationDates": [], "quote": {}, "options": []}
    with pytest.raises(MarketError, match="Yahoo has no options of MMM"):
        market.section("MMM", "options")


def test_a_contract_is_priced_between_bid_and_ask_else_by_its_last_trade(market: YahooMarket, far: FarYahoo) -> None:
    expiry, name = dt.date(2030, 1, 18), "AAPL300118P"
    traded = dt.datetime(2024, 5, 6, 14, 0, tzinfo=dt.UTC)
    quotes = {40: (1.0, 1.2, 0.9), 45: (0, 2.0, 1.5), 50: (0, 0, 0)}
    puts = [
        put(f"{name}{at * 1000:08}", bid=bid, ask=ask, lastPrice=last, lastTradeDate=int(traded.timestamp()))
        for at, (bid, ask, last) in quotes.items()
    ]
    listed(far, puts, expiry)
    assert isinstance(market, OptionSource)
    between, last = quote_of(market, f"{name}00040000"), quote_of(market, f"{name}00045000")
    assert (between.price, between.at) == (1.1, market.clock.now())  # the clock stands before the fetch
    assert (last.price, last.at) == (1.5, min(traded, market.clock.now()))
    for unknown in (f"{name}00050000", f"{name}00055000", "AAPL300215P00040000"):
        with pytest.raises(MarketError, match=f"unknown contract {unknown}"):
            market.option_quote(unknown)
    with pytest.raises(MarketError, match="no OCC symbol"):
        market.option_quote("AAPL")


def test_a_chain_is_yahoo_s_as_it_is(far: FarYahoo, tmp_path: Path) -> None:
    near, late = dt.date(2024, 4, 19), dt.date(2024, 9, 20)
    rows = [put("AAPL240419P00040000"), put("AAPL240419P00045000", bid=0, volume=None), put("AAPL1240419P00040000")]
    listed(far, rows, near, late)
    live = build_yahoo(tmp_path, NowClock(), far.session())
    assert isinstance(live, ChainSource)
    chain = chain_of(live, "AAPL", TODAY, dt.date(2024, 5, 1))
    assert (chain.symbol, chain.source, chain.spot, chain.unread) == ("AAPL", "yahoo", 50, ("AAPL1240419P00040000",))
    first, second = chain.rows
    assert (first.contract.symbol, first.contract.expiry) == ("AAPL240419P00040000", near)
    assert (first.bid, first.ask, first.last, first.volume, first.open_interest) == (1.0, 1.2, 1.1, 7, 70)
    assert (second.bid, second.volume, second.greeks) == (0.0, None, None)
    quote = live.option_quote("AAPL240419P00040000")
    assert (quote.bid, quote.ask) == (1.0, 1.2)
    assert chain_of(live, "AAPL", dt.date(2024, 5, 1), dt.date(2024, 6, 1)).rows == ()
    far.options["MMM"] = {"expirationDates": [], "quote": {}, "options": []}
    with pytest.raises(MarketError, match="Yahoo has no options of MMM"):
        chain_of(live, "MMM", TODAY, late)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"dividendRate": 1.0, "dividendYield": 2.0}, 0.02),
        ({"dividendRate": {"raw": 0.5, "fmt": "0.50"}}, 0.01),
        ({"dividendYield": 2.0}, None),
        ({"dividendRate": 60.0}, None),
        ({"dividendRate": "Infinity"}, None),
        (None, None),
    ],
)
def test_a_chain_has_the_dividend_of_a_year_over_the_price(
    info: dict[str, object] | None, expected: float | None, far: FarYahoo, tmp_path: Path
) -> None:
    listed(far, [put("AAPL240419P00040000")], dt.date(2024, 4, 19))
    if info is not None:
        far.infos["AAPL"] = info
    live = build_yahoo(tmp_path, NowClock(), far.session())
    assert chain_of(live, "AAPL", TODAY, dt.date(2024, 5, 1)).dividend_yield == expected


@pytest.mark.parametrize("symbol", ["BRK.B", "BRK-B"])
def test_contracts_of_a_share_s_class_are_priced_by_their_root(symbol: str, far: FarYahoo, tmp_path: Path) -> None:
    name = "BRKB240419P00040000"
    listed(far, [put(name)], dt.date(2024, 4, 19))
    far.options["BRK-B"], far.charts["BRK-B"] = far.options.pop("AAPL"), far.charts["AAPL"]
    live = build_yahoo(tmp_path, NowClock(), far.session())
    (row,) = chain_of(live, symbol, TODAY, dt.date(2024, 5, 1)).rows
    assert (row.contract.symbol, row.contract.underlying) == (name, "BRKB")
    assert quote_of(live, name).price == 1.1
    assert (share_of(live, "BRKB"), share_of(live, "AAPL"), share_of(live, "ZZZ")) == ("BRK.B", "AAPL", "ZZZ")


def test_a_contract_at_two_prices_has_none_and_a_past_day_no_chain(far: FarYahoo, tmp_path: Path) -> None:
    name = "AAPL240419P00040000"
    listed(far, [put(name), put(name, bid=2.0, ask=2.1)], dt.date(2024, 4, 19))
    with pytest.raises(NotConfigured, match="Yahoo has the option chains of now alone, none of a past day"):
        chain_of(build_yahoo(tmp_path, FarClock(), far.session()), "AAPL", TODAY, dt.date(2024, 5, 1))
    with pytest.raises(MarketError, match=f"Yahoo lists {name} 2 times, with differing prices"):
        build_yahoo(tmp_path, NowClock(), far.session()).option_quote(name)


def article(title: str | None, published: str) -> dict[str, object]:
    source = {"provider": {"displayName": "Reuters"}, "canonicalUrl": {"url": "https://x"}}
    return {"content": {"title": title, "pubDate": published, **source}}


def test_headlines_end_at_now(market: YahooMarket, far: FarYahoo) -> None:
    far.articles["AAPL"] = [
        article("older", "2024-03-14T12:00:00Z"),
        article("future", "2024-03-15T19:55:01Z"),
        article("newest", "2024-03-15T19:55:00Z"),
        article(None, "2024-03-15T10:00:00Z"),
        {"ad": ["buy"], "content": {"title": "ad", "pubDate": "2024-03-14T12:00:00Z"}},
    ]
    headlines = market.headlines("AAPL", 5)
    assert [row.headline for row in headlines] == ["newest", "older"]
    assert (headlines[0].source, headlines[0].url) == ("Reuters", "https://x")
    assert [row.headline for row in market.headlines("AAPL", 1)] == ["newest"]


def test_an_unknown_symbol_is_named(market: YahooMarket) -> None:
    with pytest.raises(MarketError, match="unknown symbol NOPE") as caught:
        market.bars("NOPE", 5)
    assert not caught.value.retryable
    with pytest.raises(MarketError, match="unknown symbol NOPE"):
        market.listing("NOPE")


def test_too_many_requests_rest_the_source(market: YahooMarket, far: FarYahoo) -> None:
    far.trouble["/v8/finance/chart"] = (429, "Too Many Requests")
    with pytest.raises(MarketUnavailable, match="Yahoo limits our requests") as caught:
        market.bars("MMM", 5)
    assert caught.value.retryable
    del far.trouble["/v8/finance/chart"]
    asked = len(far.asked)
    with pytest.raises(MarketUnavailable, match="Yahoo limits our requests"):
        market.bars("AAPL", 5)
    assert len(far.asked) == asked


@pytest.mark.parametrize("answer", [(500, "down"), (200, "<html>"), (200, '{"chart": {"result": [{"meta": 1}]}}')])
def test_an_answer_that_cannot_be_read_is_no_unknown_symbol(
    market: YahooMarket, far: FarYahoo, answer: tuple[int, str]
) -> None:
    far.trouble["/v8/finance/chart"] = answer
    with pytest.raises(MarketUnavailable, match="MMM"):
        market.bars("MMM", 5)
    del far.trouble["/v8/finance/chart"]
    assert market.bars("AAPL", 5)


def test_a_closed_wire_is_unavailable(market: YahooMarket, far: FarYahoo) -> None:
    far.shutdown()
    far.server_close()
    with pytest.raises(MarketUnavailable, match="Yahoo does not answer for AAPL"):
        market.bars("AAPL", 5)


def test_many_symbols_are_fetched_at_once(market: YahooMarket, far: FarYahoo, call: Call) -> None:
    assert isinstance(market, Prefetching)
    assert not isinstance(market, ClosedSet)
    for name in ("A", "B", "C"):
        far.charts[name] = far.charts["AAPL"]
    answer = call(market, "signals_get", symbols=["A", "B", "NOPE", "C"])
    assert [row["symbol"] for row in answer.payload["signals"]] == ["A", "B", "C"]
    assert [row["symbol"] for row in answer.payload["missing"]] == ["NOPE"]
    asked = len(far.asked)
    market.prefetch(["A", "B"], 5)
    assert len(far.asked) == asked


def test_the_universe_is_a_list_of_its_own(market: YahooMarket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the replay's package, and without a request."""
    monkeypatch.setattr(replay_data, "PACKAGE", "no-such-package-anywhere")
    found = market.universe("sp500")
    symbols = [listing.symbol for listing in found]
    assert len(symbols) == 503
    assert symbols == sorted(set(symbols))
    assert all(is_symbol(symbol) for symbol in symbols)
    assert {"AAPL", "BRK.B", "TSLA"} <= set(symbols)
    assert len({listing.sector for listing in found}) == 11
    with pytest.raises(MarketError, match="'dax'"):
        market.universe("dax")


def test_yfinance_is_an_extra(market: YahooMarket, monkeypatch: pytest.MonkeyPatch) -> None:
    uninstalled(monkeypatch)
    with pytest.raises(NotConfigured, match=r"it needs the package yfinance, .*pip install 'chordesk\[yahoo\]'"):
        market.bars("AAPL", 5)
    with pytest.raises(NotConfigured, match=r"pip install 'chordesk\[yahoo\]'"):
        build_market(Settings(market="yahoo"))


def test_the_pace_lets_a_burst_through_and_then_so_many_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [100.0], list[float]()
    monkeypatch.setattr(fetching.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(fetching.time, "sleep", slept.append)
    source = Source("far", Pace(per_second=2, burst=3))
    for _ in range(5):
        source.wait()
    assert slept == [0.5, 1.0]
    now[0] += 2.0  # what was taken of the future is given back first
    source.wait()
    assert slept == [0.5, 1.0]
    assert "try again in 30 s" in str(source.limited())
    now[0] += 29
    with pytest.raises(MarketUnavailable, match=r"far limits our requests .* in 1 s"):
        source.wait()
    now[0] += 1
    source.wait()
    assert len(slept) == 2


@pytest.mark.parametrize(
    ("listed", "says"),
    [
        ({"currency": "GBp", "exchangeTimezoneName": "Europe/London"}, "priced in GBp, a hundredth of GBP, traded by"),
        ({"currency": "CAD"}, "priced in CAD"),
        ({"exchangeTimezoneName": "Asia/Tokyo"}, "traded by the clock of Asia/Tokyo"),
        ({"instrumentType": "CRYPTOCURRENCY"}, "a cryptocurrency"),
    ],
)
def test_a_chart_that_is_not_dollars_in_new_york_prices_nothing(
    market: YahooMarket, far: FarYahoo, listed: dict[str, str], says: str
) -> None:
    far.listed["AAPL"] = listed
    for ask in (market.quote, market.fill_price, lambda symbol: market.bars(symbol, 5)):
        with pytest.raises(MarketError, match=f"AAPL is {says}") as caught:
            ask("AAPL")
        assert caught.value.remedy == TRADED_REMEDY
    with pytest.raises(MarketError, match="EURUSD=X is an exchange rate"):
        market.quote("EURUSD=X")
    assert far.asked_for("/v8/finance/chart/EURUSD=X") == 0, "a name that tells by itself is not asked for"


def test_a_chart_without_a_currency_prices_nothing(market: YahooMarket, far: FarYahoo) -> None:
    far.listed["AAPL"] = {"currency": ""}
    with pytest.raises(MarketError, match="Yahoo states no currency of AAPL"):
        market.fill_price("AAPL")


def test_a_page_in_another_currency_gives_no_figures(market: YahooMarket, far: FarYahoo) -> None:
    far.infos["SHEL"] = {"currency": "GBP", "targetMeanPrice": 28.0}
    with pytest.raises(MarketError, match="SHEL is priced in GBP"):
        market.section("SHEL", "ratings")


def test_a_rate_is_of_its_last_day_and_in_the_currency_that_was_asked_for(market: YahooMarket, far: FarYahoo) -> None:
    far.charts["GBPUSD=X"] = [(day, 1.3, 1.3, 1.3, 1.31 + n / 100, 0) for n, day in enumerate(days(3)[:2])]
    far.charts["USDGBP=X"] = [(TODAY - dt.timedelta(days=2), 1, 1, 1, 0.76, 0)]
    far.listed["USDGBP=X"] = {"currency": "GBP"}
    far.charts["USDT-USD"] = [(day, 1, 1, 1, 0.97, 0) for day in days(2)]
    found = market.rate("GBPUSD")
    assert found[:3] == ("GBP", "USD", 1.32)
    assert found.at == dt.datetime.combine(TODAY - dt.timedelta(days=1), dt.time(17), NEW_YORK)
    assert market.rate("USDT/USD").rate == 0.97
    assert rate_into(market, "USD", Money("GBP")).rate == 0.76
    far.charts["EURUSD=X"] = [(TODAY, 1, 1, 1, 110, 0)]
    far.listed["EURUSD=X"] = {"currency": "USX"}
    with pytest.raises(MarketError, match="EURUSD=X as 110 USX, which is no rate in USD"):
        market.rate("EURUSD")
    with pytest.raises(MarketError, match="unknown symbol"):
        market.rate("ZMWUSD")
