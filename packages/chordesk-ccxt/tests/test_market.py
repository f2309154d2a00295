"""The market of a venue: what its answers become, and what is said where one is wrong, late, cut or missing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from chordesk_ccxt.market import CcxtMarket
from chordesk_ccxt.venue import Venue
from far_binance import FarBinance
from far_kraken import FarKraken
from far_venue import FarVenue

from chordesk.plugins import AgedCache, MarketError, MarketUnavailable

VENUES: list[tuple[type[FarVenue], str]] = [(FarKraken, "BTC-USD"), (FarBinance, "BTC-USDT")]
Made = Callable[..., CcxtMarket]


@pytest.fixture(params=VENUES, ids=["kraken", "binance"])
def far(request: pytest.FixtureRequest) -> Iterator[Any]:
    kind, symbol = request.param
    with kind() as venue:
        venue.symbol = symbol
        venue.days(symbol, 400)
        yield venue


@pytest.fixture
def made(far: Any, tmp_path: Path) -> Made:
    def make(seconds: float = 5.0) -> CcxtMarket:
        return CcxtMarket(Venue(far.title.lower(), url=far.url, seconds=seconds), AgedCache(tmp_path / "cache"))

    return make


def test_whole_days_alone_become_bars(far: Any, made: Made) -> None:
    bars = made().bars(far.symbol, 30)
    today = dt.datetime.now(dt.UTC).date()
    assert bars.dates == [today - dt.timedelta(days=at) for at in range(30, 0, -1)], "today goes on and is no bar"
    days = {row[0]: row for row in far.candles[far.symbol]}
    for at, day in enumerate(bars.dates):
        told = [float(getattr(bars, name)[at]) for name in ("open", "high", "low", "close", "volume")]
        assert told == pytest.approx(days[day][1:], abs=1e-5)


def test_history_longer_than_a_page_is_whole(far: Any, made: Made) -> None:
    far.page = 100  # a venue that gives fewer than are asked for, silently
    bars = made().bars(far.symbol, 350)
    assert len(bars) == 350
    assert bars.dates[-1] - bars.dates[0] == dt.timedelta(days=349), "no day between pages is lost"


def test_terms_are_the_venues_own(far: Any, made: Made) -> None:
    listing = made().listing(far.symbol)
    step = Decimal("0.00000001") if far.title == "Kraken" else Decimal("0.00001")
    assert (listing.exchange, listing.currency, listing.kind) == ("CRYPTO", far.money, "crypto")
    assert (listing.price_step, listing.quantity_step, listing.lot) == (Decimal("0.01"), step, step)
    cost = Decimal("0.5") if far.title == "Kraken" else Decimal(5)
    assert listing.least_amount is not None
    assert cost <= listing.least_amount * far.prices[far.symbol] < cost + step * far.prices[far.symbol]


def test_a_quote_is_the_last_trade_and_no_later_than_now(far: Any, made: Made) -> None:
    market = made()
    far.prices[far.symbol] = Decimal("123.45")
    quote = market.quote(far.symbol)
    assert (quote.price, quote.source) == (123.45, f"ccxt {far.title.lower()}")
    assert dt.timedelta(0) <= market.clock.now() - quote.at < dt.timedelta(seconds=30)


def test_the_rate_of_two_currencies_is_their_pairs(far: Any, made: Made) -> None:
    far.prices["USDT-USD"] = Decimal("0.98")
    market = made()
    assert market.rate("USDT/USD").rate == 0.98
    assert market.rate("USD/USDT").rate == pytest.approx(1 / 0.98)
    with pytest.raises(MarketError, match="no pair of GBP and JPY"):
        market.rate("GBPJPY")


@pytest.mark.parametrize("kind", ["cut", "half", "server", "empty", "garbled"])
@pytest.mark.parametrize("path", ["candles", "ticker", "pairs"])
def test_an_answer_that_is_none_is_one_error_and_the_next_one_is_read(
    far: Any, made: Made, kind: str, path: str
) -> None:
    ends = {"candles": ("OHLC", "klines"), "ticker": ("Ticker", "24hr"), "pairs": ("AssetPairs", "exchangeInfo")}[path]
    market = made()
    if path != "pairs":
        market.unknown([])
    for end in ends:
        far.fault(end, kind)

    def ask() -> Any:
        return market.quote(far.symbol) if path == "ticker" else market.bars(far.symbol, 5)

    with pytest.raises(MarketUnavailable) as told:
        ask()
    assert far.title in str(told.value)
    assert told.value.remedy
    assert ask(), "the failure is not kept"


def test_an_answer_that_trickles_ends_by_its_limit(far: Any, made: Made) -> None:
    market = made(seconds=1.0)
    market.bars(far.symbol, 5)
    far.fault("Ticker", "trickle")
    far.fault("24hr", "trickle")
    with pytest.raises(MarketUnavailable, match="no whole answer within 1 s"):
        market.quote(far.symbol)
    assert market.quote(far.symbol).price


def test_too_many_requests_are_told_with_the_venues_own_wait_and_rested(far: Any, made: Made) -> None:
    market = made()
    market.unknown([])
    for end in ("OHLC", "klines"):
        far.fault(end, "busy", wait="7")
    with pytest.raises(MarketUnavailable, match="limits our requests") as told:
        market.bars(far.symbol, 5)
    assert told.value.remedy == "try again in 7 s"
    before = len(far.asked)
    with pytest.raises(MarketUnavailable, match="limits our requests"):
        market.bars(far.symbol, 5)
    assert len(far.asked) == before, "nothing is asked while it rests"


def test_a_delisted_pair_and_one_that_never_was_are_named(far: Any, made: Made) -> None:
    far.prices[f"ETH-{far.money}"] = Decimal(50)
    far.delisted.add(f"ETH-{far.money}")
    market = made()
    for ask in (market.quote, market.listing, lambda symbol: market.bars(symbol, 5)):
        with pytest.raises(MarketError, match=f"{far.title} trades ETH-{far.money} no more"):
            ask(f"ETH-{far.money}")
        with pytest.raises(MarketError, match="unknown symbol BTC-EUR") as told:
            ask("BTC-EUR")
        assert far.symbol in told.value.remedy, "the pair that there is is named"
    assert market.unknown([far.symbol, "BTC-EUR"]) == ["BTC-EUR"]


def test_candles_that_end_too_early_are_said_and_not_taken_for_todays(far: Any, made: Made) -> None:
    end = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=3)
    far.days(far.symbol, 100, last=end)
    with pytest.raises(MarketUnavailable, match=f"end on {end}"):
        made().bars(far.symbol, 5)


def test_a_day_that_the_venue_left_out_is_left_out_and_not_filled(far: Any, made: Made) -> None:
    gap = far.candles[far.symbol].pop(-10)[0]
    bars = made().bars(far.symbol, 20)
    assert gap not in bars.dates
    assert len(bars) == 20


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((100.0, 99.0, 98.0, 100.0, 1.0), "a range that its own prices leave"),
        ((100.0, 101.0, 0.0, 100.0, 1.0), "a price or a volume that is none"),
        ((100.0, 101.0, 99.0, 100.0, -1.0), "a price or a volume that is none"),
        ((float("nan"), 101.0, 99.0, 100.0, 1.0), "none"),
    ],
)
def test_a_candle_that_cannot_be_is_named_with_its_day(far: Any, made: Made, wrong: Any, said: str) -> None:
    day = far.candles[far.symbol][-5][0]
    far.candles[far.symbol][-5] = (day, *wrong)
    with pytest.raises(MarketError, match=said) as told:
        made().bars(far.symbol, 20)
    assert far.symbol in str(told.value)


def test_a_day_that_is_told_twice_with_other_figures_is_refused(far: Any, made: Made) -> None:
    rows = far.candles[far.symbol]
    day = rows[-5][0]
    rows.insert(-4, (day, 90.0, 91.0, 89.0, 90.0, 3.0))
    with pytest.raises(MarketError, match=f"two candles of {far.symbol} on {day}"):
        made().bars(far.symbol, 20)


def test_a_clock_that_is_an_hour_off_is_told_with_both_times(far: Any, made: Made) -> None:
    far.offset = dt.timedelta(hours=1)
    for ask in (lambda market: market.bars(far.symbol, 5), lambda market: market.quote(far.symbol)):
        with pytest.raises(MarketUnavailable, match=r"UTC at .* on this machine, 3\d\d\d s apart") as told:
            ask(made())
        assert "clock" in told.value.remedy


def test_what_was_kept_before_midnight_is_not_todays(far: Any, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    market = made()
    market.bars(far.symbol, 5)
    asked = len(far.asked)
    market.bars(far.symbol, 5)
    assert len(far.asked) == asked, "it is kept within the day"
    today = dt.datetime.now(dt.UTC).date()
    monkeypatch.setattr(market.clock, "session", lambda *_: today)  # after midnight
    assert market.bars(far.symbol, 5).dates[-1] == today
    assert len(far.asked) > asked
