"""Problems of own bars: each is named with its file, row and column; errors keep the market from being built."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from chordesk.models.errors import SettingError
from chordesk.tools.market.files.data_folder import check_folder
from tests.tools.market.files.folders import HEADER, Row, market, sessions, walk, write_table

DAYS = sessions("2020-01-02", 100)
GOOD = "2020-01-03,10,11,9,10,100"
FIRST = "date,open,high,low,close,volume"


def found(folder: Path, level: str, kind: str = "auto") -> list[str]:
    report = check_folder(folder, kind, 20)  # type: ignore[arg-type]
    return [str(problem) for problem in report.problems.of(level)]  # type: ignore[arg-type]


def one_file(tmp_path: Path, text: str | bytes, name: str = "A.csv") -> Path:
    path = tmp_path / "own" / "bars" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / "own"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("soon,10,11,9,10,100", "row 3, column date: 'soon' cannot be read as a day; write days as YYYY-MM-DD"),
        ("2020-02-30,10,11,9,10,1", "row 3, column date: '2020-02-30' is no day of the calendar"),
        ("03/01/2020,10,11,9,10,1", "row 3, column date: '03/01/2020' may begin with the day or the month"),
        ("43834,10,11,9,10,1", "row 3, column date: 43834 is a spreadsheet's day number (perhaps 2020-01-04)"),
        ("1578009600,10,11,9,10,1", "row 3, column date: 1578009600 counts seconds or milliseconds"),
        (",10,11,9,10,1", "row 3, column date: no day"),
        ("2020-01-04,10,11,9,10,1", "row 3, column date: Saturday, 2020-01-04, is no session of the New York"),
        ("2190-01-04,10,11,9,10,1", "row 3, column date: a bar of 2190-01-04, which is after today"),
        ("2020-01-02,10,11,9,10,1", "row 3, column date: A has a second bar of 2020-01-02; the first is in bars/A.csv"),
        ("2020-01-03,10,11,9,-10,1", "row 3, column close: -10 is no price: it must be above zero"),
        ("2020-01-03,0,11,9,10,1", "row 3, column open: 0 is no price: it must be above zero"),
        ("2020-01-03,10,11,9,NaN,1", "row 3, column close: no price"),
        ("2020-01-03,10,,9,10,1", "row 3, column high: no price"),
        ("2020-01-03,,,,10,1", "row 3, column open: no price"),
        ("2020-01-03,10,9,11,10,1", "row 3, column high: the high 9 is below the low 11"),
        ("2020-01-03,10,11,9,10,-1", "row 3, column volume: a negative volume"),
        ("2020-01-03,10,11,9,ten,1", "row 3, column close: 'ten' is no number"),
        ("2020-01-03,10,11,9,inf,1", "row 3, column close: 'inf' is no finite number"),
        ("2020-01-03,10,11,9,1_0,1", "row 3, column close: '1_0' is no number"),
        ("2020-01-03,9000,11000,9000,10000,1", "row 3, column close: A closed at 10000 on 2020-01-03, at 10 before"),
        ("2020-01-03,10,9000,9,10,1", "row 3, column high: the high is more than 300 times the low"),
        ("2020-01-03,10,11,9", "row 3: has 4 cells, and the header 6"),
    ],
)
def test_a_row_that_cannot_be_used_is_an_error_and_the_market_is_refused(
    tmp_path: Path, row: str, problem: str
) -> None:
    folder = one_file(tmp_path, f"{FIRST}\n2020-01-02,10,11,9,10,100\n{row}\n2020-01-06,10,11,9,10,100\n")
    errors = found(folder, "error")
    assert errors[0].startswith("bars/A.csv, " if "row" in problem else "bars/A.csv")
    assert problem in errors[0]
    with pytest.raises(SettingError) as caught:
        market(tmp_path, folder, DAYS[0])
    assert errors[0] in str(caught.value)
    assert f"`desk data check {folder}` lists them" in str(caught.value)


def test_a_file_of_a_foreign_name_is_an_error_that_says_where_it_is_listed(tmp_path: Path) -> None:
    folder = one_file(tmp_path, "date,close,currency\n2020-01-02,10,\n", "SAP.F.csv")
    assert "SAP.F is listed in Frankfurt (.F), which the desk does not know; leave it out" in found(folder, "error")[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "bars/A.csv: is empty"),
        (f"{FIRST}\n", "bars/A.csv: has no row below its header"),
        ("date,close,adj close\n2020-01-02,10,0\n", "bars/A.csv, row 2, column adj close: 0 is no price"),
        ("day,price\n2020-01-02,10\n", "bars/A.csv, row 1: has no column close (or adj close); its columns are day"),
        ("when,px\n2020-01-02,10\n", "bars/A.csv, row 1: has no column date, no column close (or adj close); its"),
        (
            "date,close,close\n2020-01-02,10,10\n2020-01-03,10,9\n",
            "bars/A.csv, row 3, column close: has two columns close that differ, '10' and '9'; keep one of them",
        ),
        ("date,close ,CLOSE\n2020-01-02,10,9\n", "bars/A.csv, row 2, column close: has two columns close that differ"),
        (b"PK\x03\x04\x14", "bars/A.csv: is a workbook or a zip archive; save it as CSV UTF-8"),
        (b"<!DOCTYPE html>", "bars/A.csv: is a web page or XML, and no table; export CSV"),
        (
            "date,close (EUR)\n2020-01-02,10\n",
            "row 1, column close (EUR): close (EUR) is priced in EUR; name the column without",
        ),
        ("date,high,close\n2020-01-02,10,10\n", "row 1: has high and no open and low; give all three, or the close"),
        (b"date,close\n2020-01-02,10\xff\n", "bars/A.csv, row 2, column close: '10\u00ff' is no number"),
        (
            "date;close\n2020-01-02;10,5\n2020-01-03;10.5\n",
            "row 3, column close: '10.5' shows decimal points, and row 2 '10,5'",
        ),
        (
            "date,close,currency\n2020-01-02,10,USD\n2020-01-03,10,GBp\n",
            "A.csv, row 3, column currency: the row is priced",
        ),
        ("date,close,exchange\n2020-01-02,10,LSE\n", "column exchange: the row is on the exchange LSE (London)"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path, text: str | bytes, problem: str) -> None:
    assert problem in found(one_file(tmp_path, text), "error")[0]


def test_a_lone_bar_long_after_the_last_session_of_all_is_an_error(tmp_path: Path) -> None:
    rows = "".join(f"{day},10,11,9,10,100\n" for day in DAYS[:3])
    one_file(tmp_path, f"{FIRST}\n{rows}", "B.csv")
    folder = one_file(tmp_path, f"{FIRST}\n{rows}{DAYS[40]},10,11,9,10,100\n")
    (error,) = found(folder, "error")
    assert error.startswith(f"bars/A.csv, row 5, column date: a bar of {DAYS[40]}, alone and")


@pytest.mark.parametrize(
    "text",
    [
        "﻿date,open,high,low,close,volume\r\n2020-01-02,10,11,9,10,1000\r\n",
        "Date;Open;High;Low;Close;Volume\n2020-01-02;10;11;9;10;1000\n",
        "DATE\tOPEN\tHIGH\tLOW\tCLOSE\tVOL\n2020/1/2\t10\t11\t9\t10\t1000\n",
        '"Date","Open","High","Low","Close/Last","Volume"\n"20200102","10","11","9","10","1,000"\n',
        "timestamp,o,h,l,c,v\n2020-01-02 00:00:00-05:00,10,11,9,10,1e3\n",
    ],
)
def test_usual_forms_of_csv_are_read(tmp_path: Path, text: str) -> None:
    folder = one_file(tmp_path, text, "aapl.csv")
    assert found(folder, "error") == []
    bars = market(tmp_path, folder, DAYS[0]).bars("AAPL", 1)
    assert (bars.open[0], bars.high[0], bars.low[0], bars.close[0], bars.volume[0]) == (10, 11, 9, 10, 1000)


WALK = walk(DAYS)
FLAT = [(day, 50, 50, 50, 50, 0) for day in DAYS[40:60]]


def changed(*cells: object) -> list[object]:
    """An ordinary file with other figures in row 7."""
    return [*WALK[:5], (DAYS[5], *cells), *WALK[6:]]


@pytest.mark.parametrize(
    ("rows", "warning"),
    [
        (WALK, ""),
        (WALK[::-1], "row 3: days are out of order from here on (2020-05-22)"),
        (WALK[:10], "bars/A.csv: A has 10 bars; some figures need 61"),
        ([*WALK[:50], *WALK[53:]], "A has no bar of 3 sessions within its days: 2020-03-16, 2020-03-17, 2020-03-18"),
        ([*walk(DAYS[:50], 100.0), *walk(DAYS[50:], 25.0)], "row 52: A moved"),
        ([*walk(DAYS[:40], 50.0), *FLAT, *walk(DAYS[60:], 50.0)], "row 42: A closed at 50 for 20 sessions in a row"),
        (changed(100, 101, 99, 103, 1), "row 7: 1 rows have an open or close outside low to high, which are widened"),
        (changed("", "", "", "", ""), f"row 7: A has no price on {DAYS[5]}: there is no bar of it"),
    ],
)
def test_odd_rows_that_can_be_used_are_warned_of(tmp_path: Path, rows: list[Row], warning: str) -> None:
    folder = tmp_path / "own"
    write_table(folder / "bars" / "A.csv", HEADER, rows)
    assert found(folder, "error") == []
    warned = "\n".join(found(folder, "warning"))
    assert warning in warned
    assert (warning == "") == (warned == "")
    if "moved" in warning:
        assert "as in a split; raw prices are not adjusted" in warned
        assert not any("split" in line for line in found(folder, "warning", "adjusted"))
        return
    bars = market(tmp_path, folder, DAYS[len(rows) - 1 if len(rows) < 90 else -1]).bars("A", 200)
    assert list(bars.dates) == sorted(row[0] for row in rows if row[4] != "")  # type: ignore[type-var]
    assert (bars.high >= bars.close).all()


def test_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    folder = one_file(tmp_path, f"{FIRST}\n{GOOD}\n")
    (folder / "bars" / "B.xlsx").touch()
    (folder / "notes.md").touch()
    warned = found(folder, "warning")
    assert "bars/B.xlsx: is not read: files of bars end in .csv or .parquet" in warned
    assert "notes.md: is not read: it is no file of a data folder" in warned


@pytest.mark.parametrize("form", ["folder", "link", "pipe"])
def test_a_known_name_that_is_no_file_is_an_error(tmp_path: Path, form: str) -> None:
    path = one_file(tmp_path, f"{FIRST}\n{GOOD}\n") / "headlines.csv"
    if form == "folder":
        path.mkdir()
    elif form == "link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        os.mkfifo(path)
    expected = "headlines.csv: is no file: a folder, a pipe, or a link to what is not there"
    assert found(path.parent, "error") == [expected]


def test_a_folder_without_rights_is_an_error_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = one_file(tmp_path, f"{FIRST}\n{GOOD}\n")

    def refused(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)  # rights do not bind root, as which tests may run
    for read in (lambda: found(folder, "error"), lambda: market(tmp_path, folder, DAYS[0])):
        with pytest.raises(SettingError, match=f"cannot be read: Permission denied {folder}/bars .let the user"):
            read()


def test_a_parquet_file_with_a_column_twice_is_an_error(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = one_file(tmp_path, f"{FIRST}\n{GOOD}\n")
    columns = [arrow.array(["2020-01-02"]), arrow.array([10.0]), arrow.array([99.0])]
    parquet.write_table(arrow.table(columns, names=["date", "close", "close"]), folder / "bars" / "B.parquet")
    assert found(folder, "error")[0] == "bars/B.parquet, row 1: has two columns close; keep one of them"


def test_a_file_of_nonsense_gives_a_few_lines_and_a_count(tmp_path: Path) -> None:
    folder = one_file(tmp_path, f"{FIRST}\n" + "soon,10,11,9,10,1\n" * 1000)
    report = check_folder(folder, "auto", 5)
    assert len(report.problems.found) == 5
    assert report.problems.errors == 1000
    assert report.problems.left_out() == {("bars/A.csv", "error"): 995}


def test_each_folder_has_one_form_of_bars_and_a_long_table_symbols(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    assert "bars: no file of daily bars; a data folder has bars/SYMBOL.csv" in found(folder, "error")[0]
    write_table(folder / "bars.csv", HEADER, WALK)
    assert "bars.csv, row 1: has no column symbol" in found(folder, "error")[0]
    write_table(folder / "bars.csv", ("symbol", *HEADER), [("no symbol!", *row) for row in WALK])
    assert "row 2, column symbol: 'no symbol!' is no symbol" in found(folder, "error")[0]
    one_file(tmp_path, f"{FIRST}\n{GOOD}\n")
    assert found(folder, "error")[0] == "bars.csv: stands beside the folder bars/: keep one of them"


@pytest.mark.parametrize("off", [0, 2, -1])
def test_a_split_dated_on_another_day_than_its_price_moved_is_named(tmp_path: Path, off: int) -> None:
    rows = []
    for at, (day, _, _, _, close, volume) in enumerate(walk(DAYS)):
        price = float(str(close)) / (2 if at >= 50 else 1)
        rows.append((day, price, price, price, price, volume, price / (1 if at >= 50 + off else 2)))
    write_table(tmp_path / "own" / "bars" / "A.csv", (*HEADER, "adj close"), rows)
    named = [line for line in found(tmp_path / "own", "warning") if "adjusted closes date on" in line]
    assert len(named) == (off != 0)
    if named:
        assert f"moved on {DAYS[50]}" in named[0]
        assert f"date on {DAYS[50 + off]}" in named[0]
