"""A folder of own bars is a market of past prices: the same answers as the replay gives for the same rows."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from pathlib import Path

import pytest

from chordesk.models.errors import MarketError, NotConfigured, SettingError
from chordesk.models.orders import OrderTicket
from chordesk.models.settings import Settings
from chordesk.tools.brokers.paper_matching import PaperPrices
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.factory import MarketKey, build_market, configured_market, market_at
from chordesk.tools.market.files.market import FilesMarket
from chordesk.tools.market.protocol import ClosedSet, Incomplete, OptionSource, RecordedSessions
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.files.folders import HEADER, market, sessions, settings, walk, write_replayed, write_table

TODAY = dt.date(2010, 8, 12)
NAMES = ("AAPL", "IBM", "MMM", "QEP", "XTO")


@pytest.fixture
def folder(tmp_path: Path, data: ReplayData) -> Path:
    return write_replayed(tmp_path / "own", data, NAMES)


@pytest.fixture
def own(tmp_path: Path, folder: Path) -> FilesMarket:
    return market(tmp_path, folder, TODAY)


def test_the_same_rows_give_the_same_bars_quotes_and_fills(own: FilesMarket, market: ReplayMarket) -> None:
    for symbol in ("AAPL", "QEP"):
        ours, theirs = own.bars(symbol, 300), market.bars(symbol, 300)
        assert ours.dates == theirs.dates
        for name in HEADER[1:]:
            assert getattr(ours, name).tolist() == getattr(theirs, name).tolist()
        assert own.quote(symbol).price == market.quote(symbol).price
    assert own.listing("AAPL") == market.listing("AAPL")
    assert own.clock.now().isoformat() == "2010-08-12T15:55:00-04:00"
    assert all(isinstance(own, protocol) for protocol in (RecordedSessions, ClosedSet, Incomplete))
    assert not isinstance(own, OptionSource)
    assert list(own.lost(250)) == list(market.lost(250)), "sessions that no file has are lost"
    assert len(own.lost(250)) == 6
    with pytest.raises(NotConfigured, match=r"DESK_DATA with a file headlines\.csv"):
        own.headlines("AAPL", 5)
    with pytest.raises(NotConfigured, match="the data folder has no fundamentals"):
        own.section("AAPL", "fundamentals")


def test_the_universe_is_the_folder_s_own(own: FilesMarket, tmp_path: Path, folder: Path) -> None:
    assert [listing.symbol for listing in own.universe("sp500")] == ["AAPL", "IBM", "MMM", "QEP", "XTO"]
    assert own.unknown(["AAPL", "XTO", "NOPE"]) == ["NOPE"]
    (folder / "universe.csv").write_text("ticker\nibm\nAAPL\n", encoding="utf-8")
    narrow = market(tmp_path, folder, TODAY)
    assert [listing.symbol for listing in narrow.universe("sp500")] == ["AAPL", "IBM"]
    assert narrow.bars("MMM", 1).dates == [TODAY]
    with pytest.raises(MarketError, match="no universe named 'dax'"):
        own.universe("dax")


def test_any_session_that_the_data_cover_can_be_replayed(tmp_path: Path, folder: Path, data: ReplayData) -> None:
    for day in data.sessions[:: len(data.sessions) // 9]:
        assert market(tmp_path, folder, day).clock.session() == day
    with pytest.raises(SettingError) as caught:
        market(tmp_path, folder, dt.date(2010, 8, 14))
    assert "DESK_REPLAY_DATE=2010-08-14 is no session of the New York Stock Exchange" in str(caught.value)
    with pytest.raises(SettingError, match=r"is outside the data of .*own \(2009-08-21 to 2010-08-20\)"):
        market(tmp_path, folder, dt.date(2012, 8, 14))


@pytest.mark.parametrize("form", ["bars.parquet", "bars/AAPL.parquet"])
def test_parquet_is_read_as_csv_is(tmp_path: Path, form: str, own: FilesMarket) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    bars = own.bars("AAPL", 300)
    columns = {name.title(): getattr(bars, name) for name in HEADER[1:]}
    days = arrow.array([dt.datetime.combine(day, dt.time()) for day in bars.dates], arrow.timestamp("ns"))
    table = arrow.table({"Date": days, **columns, "Symbol": ["aapl"] * len(bars)})
    path = tmp_path / "parquet" / form
    path.parent.mkdir(parents=True)
    parquet.write_table(table, path)
    found = market(tmp_path, tmp_path / "parquet", TODAY).bars("AAPL", 300)
    assert found.dates == bars.dates
    assert found.close.tolist() == bars.close.tolist()
    assert found.volume.tolist() == bars.volume.tolist()


THREE = sessions("2020-06-01", 3)
BOTH = ("date", "open", "high", "low", "close", "adj close", "volume")


@pytest.mark.parametrize(
    ("header", "prices", "bar", "adjusted"),
    [
        (BOTH, "auto", (98, 104, 96, 100), True),
        (BOTH, "raw", (98, 104, 96, 100), False),
        (BOTH, "adjusted", (98, 104, 96, 100), True),
        # A file without adjusted closes counts as what it is called.
        (HEADER, "auto", (98, 104, 96, 100), False),
        (HEADER, "raw", (98, 104, 96, 100), False),
        (HEADER, "adjusted", (98, 104, 96, 100), True),
        (("date", "adj close", "volume"), "auto", (None, None, None, 50), True),
        (("date", "adj close", "volume"), "raw", None, False),
    ],
)
def test_prices_are_raw_adjusted_or_whichever_a_file_has(
    tmp_path: Path, header: tuple[str, ...], prices: str, bar: tuple[float | None, ...] | None, adjusted: bool
) -> None:
    rows = [dict(zip(BOTH, (day, 98, 104, 96, 100, 50, 10), strict=True)) for day in THREE]
    folder = tmp_path / "own"
    write_table(folder / "bars" / "A.csv", header, [[row[name] for name in header] for row in rows])
    if bar is None:
        with pytest.raises(SettingError, match=r"A\.csv: has adjusted closes alone; set DESK_DATA_PRICES to adjusted"):
            market(tmp_path, folder, THREE[-1], data_prices=prices)
        return
    own = market(tmp_path, folder, THREE[-1], data_prices=prices)
    bars = own.bars("A", 3)
    last = [float(getattr(bars, name)[-1]) for name in HEADER[1:5]]
    assert [None if price != price else price for price in last] == list(bar)
    assert bars.adjusted is adjusted
    assert (own.name == market(tmp_path, folder, THREE[-1], data_prices="auto").name) == (prices == "auto")


class TestVersions:
    """A run on other files is a run on another market."""

    DAY = sessions("2020-06-01", 30)[-1]

    def write(self, folder: Path, start: float = 100.0) -> Path:
        path = write_table(folder / "bars" / "A.csv", HEADER, walk(sessions("2020-06-01", 30), start))
        os.utime(path, ns=(int(start), int(start)))
        return folder

    def test_a_changed_file_is_another_market_and_an_earlier_run_s_is_refused(self, tmp_path: Path) -> None:
        folder = self.write(tmp_path / "own")
        here = settings(tmp_path, folder, replay_date=self.DAY)
        before = build_market(here)
        kept = market_at(before.name, before.clock.now())
        assert kept == MarketKey(before.name, self.DAY)
        assert build_market(here, kept).name == before.name
        self.write(folder, 110.0)
        after = build_market(here)
        assert (before.quote("A").price, after.quote("A").price) != (after.quote("A").price, before.quote("A").price)
        with pytest.raises(SettingError) as caught:
            build_market(here, kept)
        assert str(caught.value) == (
            f"the data here are {after.name}, those asked for were {before.name}: a file of DESK_DATA has changed "
            "(put the former files back, or open a new run on these)"
        )
        self.write(folder)
        assert build_market(here, kept).name == before.name

    def test_a_folder_elsewhere_with_the_same_files_is_the_same_market(self, tmp_path: Path) -> None:
        names = {market(tmp_path, self.write(tmp_path / place), self.DAY).name for place in ("one", "two")}
        assert len(names) == 1

    def test_the_settings_market_is_the_folder_as_it_is_now(self, tmp_path: Path) -> None:
        here = settings(tmp_path, self.write(tmp_path / "own"), replay_date=self.DAY)
        assert configured_market(here) == MarketKey("files", self.DAY)

    def test_a_second_process_reads_the_cache_and_a_damaged_one_is_read_anew(self, tmp_path: Path) -> None:
        from chordesk.tools.market.files import data_folder as loading

        folder = self.write(tmp_path / "own")
        first = market(tmp_path, folder, self.DAY).bars("A", 30)
        (kept,) = (tmp_path / "cache").glob("files-*.npz")
        for content in (None, b"damaged"):
            if content is not None:
                kept.write_bytes(content)
            loading._loaded.cache_clear()
            again = market(tmp_path, folder, self.DAY).bars("A", 30)
            assert again.close.tolist() == first.close.tolist()


@pytest.mark.parametrize(
    ("folder", "message"),
    [(None, "DESK_MARKET=files needs DESK_DATA"), ("nowhere", "does not exist on "), ("a-file", "is no folder on ")],
)
def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, folder: str | None, message: str) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(SettingError, match=message) as caught:
        build_market(Settings(home=tmp_path, market="files", data=tmp_path / folder if folder else None))
    if folder:
        assert "each host with a worker needs the same folder" in str(caught.value)


def test_closes_alone_fill_at_the_end_of_the_next_session_and_lack_ranges(
    tmp_path: Path, make_context: MakeContext, call: Call
) -> None:
    days = sessions("2020-01-02", 120)
    rows = [(row[0], row[4]) for row in walk(days)]
    write_table(tmp_path / "own" / "bars" / "A.csv", ("Date", "Close"), rows)
    own = market(tmp_path, tmp_path / "own", days[100])
    following = own.on(ReplayClock(days[101]))
    ticket = OrderTicket(
        order_id=uuid.UUID(int=1), account="paper", symbol="A", action="open", side="buy", quantity=1,
        placed_at=own.clock.now(), order_type="market",
    )  # fmt: skip
    settings = Settings(slippage_bps=0)
    assert PaperPrices(following, settings, at_open=True).match(ticket, []).matches == []
    (match,) = PaperPrices(following, settings, at_open=False).match(ticket, []).matches
    assert (float(match.price), match.at) == (rows[101][1], following.clock.now())
    context = make_context(own)
    signals = call(context, "signals_get", symbols=["A"]).payload
    (row,) = signals["signals"]
    assert row["momentum60"] is not None
    assert (row["gap"], row["fromHigh"], row["volumeRatio"]) == (None, None, None)
    reason = "this market has closes alone: no ATR, ADX, gap, range or candle can be known"
    assert {"what": "open, high and low", "reason": reason} in signals["missing"]
    (technicals,) = call(context, "technicals_get", symbols=["A"]).payload["technicals"]
    assert technicals["sma50"] is not None
    assert (technicals["atr14"], technicals["adx14"]) == (None, None)
    for tool in ("chart_study_get", "chart_render"):
        answer = call(context, tool, symbols=["A"]).payload
        assert not answer["available"]
        assert reason in {gap["reason"] for gap in answer["missing"]}
    (history,) = call(context, "price_history_get", symbols=["A"], sessions=20).payload["histories"]
    assert history["rows"][-1] == [str(days[100]), None, None, None, rows[100][1], None]


def test_a_universe_has_its_members_of_the_day(tmp_path: Path) -> None:
    days = sessions("2020-01-02", 110)
    folder = tmp_path / "own"
    for name in ("A", "B"):
        write_table(folder / "bars" / f"{name}.csv", HEADER, walk(days))
    rows = [("A", "", "2020-03-31"), ("A", "2020-05-01", ""), ("B", "2020-04-01", "")]
    write_table(folder / "universe.csv", ("symbol", "from", "to"), rows)
    expected = {"2020-03-31": ["A"], "2020-04-01": ["B"], "2020-05-01": ["A", "B"]}
    found = {day: market(tmp_path, folder, dt.date.fromisoformat(day)).universe("sp500") for day in expected}
    assert {day: [one.symbol for one in members] for day, members in found.items()} == expected
    april = market(tmp_path, folder, dt.date(2020, 4, 1))
    assert april.quote("A").price, "a name that has left is priced all the same"
    for wrong, problem in (
        (("A", "2020-05-01", "2020-04-01"), "row 2: the membership of A ends on 2020-04-01, before it begins"),
        (("A", "2020-03-01", ""), "row 3: A is listed twice"),
    ):
        write_table(folder / "universe.csv", ("symbol", "from", "to"), [*([] if "2: " in problem else rows[:1]), wrong])
        with pytest.raises(SettingError, match=r"universe\.csv") as caught:
            market(tmp_path, folder, dt.date(2020, 4, 1))
        assert problem.partition(": ")[2] in str(caught.value)
