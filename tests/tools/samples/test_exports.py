"""Exports of others as they come: the same bars from each, symbols as they are stated, and nothing written unasked."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.files.known_exports import SOURCES
from chordesk.tools.samples.importing import Imported, import_data
from chordesk.tools.samples.preview import Preview
from tests.tools.market.files.folders import sessions

DAYS = sessions("2024-01-02", 30)
# day, open, high, low, close, volume
BARS = [(day, 180.5 + at, 182.5 + at, 179.25 + at, 181.75 + at, 1_200_000 + 10_000 * at) for at, day in enumerate(DAYS)]
FIGURES = ("open", "high", "low", "close", "volume")
Bar = tuple[dt.date, float, float, float, float, int]


def noon(day: dt.date, hour: int) -> int:
    return int(dt.datetime(day.year, day.month, day.day, hour, 30, tzinfo=dt.UTC).timestamp())


def comma(value: float) -> str:
    return f"{value:.2f}".replace(".", ",")


def written(header: str, row: Callable[[Bar], str]) -> str:
    return f"{header}\n" + "".join(f"{row(bar)}\n" for bar in BARS)


def wide(*tickers: str) -> str:
    names = ("Close", "High", "Low", "Open", "Volume")
    places = (4, 2, 3, 1, 5)
    rows = [",".join(("Price", *(name for name in names for _ in tickers)))]
    rows.append(",".join(("Ticker", *(ticker for _ in names for ticker in tickers))))
    rows.append("Date" + "," * (len(names) * len(tickers)))
    rows += [",".join((str(bar[0]), *(str(bar[place]) for place in places for _ in tickers))) for bar in BARS]
    return "\n".join(rows) + "\n"


EXPORTS: dict[str, str | bytes] = {
    "AAPL Historical Data.csv": written(
        '\ufeff"Date","Price","Open","High","Low","Vol.","Change %"',
        lambda b: f'"{b[0]:%m/%d/%Y}","{b[4]}","{b[1]}","{b[2]}","{b[3]}","{b[5] / 1e6:.2f}M","0.1%"',
    ),
    "AAPL Historische Daten.csv": written(
        '"Datum","Zuletzt","Eröffn.","Hoch","Tief","Vol.","+/- %"',
        lambda b: (
            f'"{b[0]:%d.%m.%Y}","{comma(b[4])}","{comma(b[1])}","{comma(b[2])}","{comma(b[3])}",'
            f'"{comma(b[5] / 1e6)}M","0,1%"'
        ),
    ),
    "aapl_price-history.csv": written(
        "Time,Open,High,Low,Latest,Change,%Change,Volume",
        lambda b: f"{b[0]:%m/%d/%Y},{b[1]},{b[2]},{b[3]},{b[4]},0.1,0.1%,{b[5]}",
    )
    + '"Downloaded from Barchart.com as of 02-14-2024 05:12am CST"\n',
    "AAPL Historical Data (2).csv": written(
        "Datum;Erster;Hoch;Tief;Schlusskurs;Stuecke",
        lambda b: ";".join([f"{b[0]:%d.%m.%Y}", *map(comma, b[1:5]), f"{b[5]:,}".replace(",", ".")]),
    ),
    "aapl.csv": written(
        "Date;Open;High;Low;Close;Volume",
        lambda b: ";".join([f"{b[0]:%d.%m.%Y}", *map(comma, b[1:5]), f"{b[5]:,}".replace(",", ".")]),
    ),
    "NASDAQ_AAPL, 1D.csv": written(
        "time,open,high,low,close,Volume", lambda b: f"{noon(b[0], 14)},{b[1]},{b[2]},{b[3]},{b[4]},{b[5]}"
    ),
    "flat.csv": written(
        "ticker,volume,open,close,high,low,window_start,transactions",
        lambda b: f"AAPL,{b[5]},{b[1]},{b[4]},{b[2]},{b[3]},{noon(b[0], 5)}000000000,7",
    ),
    "aapl_daily.csv": written(
        "Time,Open,High,Low,Last,Change,%Chg,Volume",
        lambda b: f"{b[0]:%m/%d/%Y},{b[1]},{b[2]},{b[3]},{b[4]},0,0%,{b[5]}",
    )
    + '"Downloaded from Barchart.com as of 02-14-2024"\n',
    "AAPL.tsv": written(
        "Date\tOpen\tHigh\tLow\tClose Close price adjusted for splits.\tVolume",
        lambda b: (
            f"{b[0]:%b %d, %Y}\t{b[1]}\t{b[2]}\t{b[3]}\t{b[4]}\t{b[5]:,}"
            + ("\nFeb 09, 2024\t0.24 Dividend" if b[0] == DAYS[20] else "")
        ),
    ),
    "AAPL.csv": written(
        "sep=;\r\nDate;Open;High;Low;Close;Volume", lambda b: f"{b[0]:%d/%m/%y};{b[1]};{b[2]};{b[3]};{b[4]};{b[5]}"
    ).encode("utf-16"),
    "AAPL.US.csv": written(
        ",date,open,high,low,close,volume,average,barCount",
        lambda b: f"0,{b[0]:%Y%m%d}  16:00:00 US/Eastern,{b[1]},{b[2]},{b[3]},{b[4]},{b[5]},1,2",
    ),
    "download.csv": wide("AAPL"),
    "AAPL Datos históricos.csv": written(
        '"Fecha","Último","Apertura","Máximo","Mínimo","Vol.","% var."',
        lambda b: (
            f'"{b[0]:%d.%m.%Y}","{comma(b[4])}","{comma(b[1])}","{comma(b[2])}","{comma(b[3])}",'
            f'"{comma(b[5] / 1e6)}M","0,1%"'
        ),
    ),
    "Прошлые данные - AAPL.csv": written(
        "Дата;Цена;Откр.;Макс.;Мин.;Объём",
        lambda b: ";".join([f"{b[0]:%d.%m.%Y}", *(comma(b[at]) for at in (4, 1, 2, 3)), str(b[5])]),
    ),
    "aapl_us_d.csv.gz": gzip.compress(
        written("Data,Otwarcie,Najwyzszy,Najnizszy,Zamkniecie,Wolumen", lambda b: ",".join(map(str, b))).encode()
    ),
    "quantmod.csv": written(
        ",".join(f'"AAPL.{name}"' for name in ("Date", "Open", "High", "Low", "Close", "Volume")).replace(
            "AAPL.D", "D"
        ),
        lambda b: ",".join(map(str, b)),
    ),
    "pandas.json": json.dumps(
        {
            "meta": {"symbol": "AAPL", "exchange_timezone": "America/New_York"},
            "values": [dict(zip(("datetime", *FIGURES), map(str, bar), strict=True)) for bar in BARS[::-1]],
        }
    ),
    "chart.json": json.dumps(
        {
            "ticker": "AAPL",
            "t": [noon(bar[0], 14) for bar in BARS],
            **{name[0]: [bar[at] for bar in BARS] for at, name in enumerate(FIGURES, 1)},
        }
    ),
    "export.csv": written(
        "Apple Inc. (NASDAQ: AAPL)\n\n1. Trading Date;Open (USD);High (USD);Low (USD);Close (USD);Volume;Volume",
        lambda b: ";".join(
            [f"{b[0]:%d-%b-%Y}", *map(str, b[1:5]), f"{b[5]:,}".replace(",", "."), f"{b[5]:,}".replace(",", ".")]
        ),
    ),
    "AAPL cours.txt": written(
        "date\touv\thaut\tbas\tclot\tvol\tdevise",
        lambda b: "\t".join([f"{b[0]:%d/%m/%Y} 00:00", *map(str, b[1:]), "USD"]),
    ),
    "metastock.txt": written(
        "<TICKER>,<DTYYYYMMDD>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>",
        lambda b: f"AAPL,{b[0]:%Y%m%d},{','.join(map(str, b[1:]))}",
    ),
    "long.csv": written(
        "RIC,date,open,high,low,close,volume",
        lambda b: f"AAPL.O,{(b[0] - dt.date(1899, 12, 30)).days},{','.join(map(str, b[1:]))}",
    ),
}


def test_daily_times_of_another_zone_are_not_read_as_the_days_before(tmp_path: Path) -> None:
    """04:00 in UTC is New York's midnight in summer alone: in winter a Monday's bar would be a Sunday's."""
    rows = written("date,open,high,low,close,volume", lambda b: ",".join(map(str, (f"{b[0]}T04:00:00Z", *b[1:]))))
    (tmp_path / "AAPL.csv").write_text(rows)
    with pytest.raises(UsageError, match=r"row 6: times of a zone whose .* is Sunday, 23:00 in New York"):
        imported(tmp_path, "AAPL.csv")


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_of_many_sources_are_the_same_bars(tmp_path: Path, name: str) -> None:
    content = EXPORTS[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = imported(tmp_path, name)
    rows = [line.split(",") for line in (done.folder / "bars" / "AAPL.csv").read_text().splitlines()]
    places = {name.removeprefix("adj "): at for at, name in enumerate(rows[0])}
    read = [
        (row[places["date"]], *(float(row[places[one]]) for one in ("open", "high", "low", "close")))
        for row in rows[1:]
    ]
    assert read == [(str(day), *prices) for day, *prices, _ in BARS]
    assert [int(row[places["volume"]]) for row in rows[1:]] == [bar[5] for bar in BARS]
    report = check_folder(done.folder, "auto", 9)
    assert report.problems.errors == 0
    assert ("adjusted prices alone of 1" in report.contents[0]) == (name == "download.csv")


def imported(tmp_path: Path, *names: str, agreed: Callable[[Preview], bool] = lambda _: True) -> Imported:
    return import_data([str(tmp_path / name) for name in names], tmp_path / "own", force=False, agreed=agreed)


SIMPLE = written("date,open,high,low,close,volume", lambda b: ",".join(map(str, b)))


def test_what_a_file_states_beats_its_name_and_is_there_once(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("AAPL.csv", "download.csv"):
        (tmp_path / "src" / name).write_text(wide("MSFT", "BRK-B"), encoding="utf-8")
    shown: list[str] = []
    done = imported(tmp_path, "src", agreed=lambda preview: (shown.extend(preview.lines()), True)[1])
    assert sorted(path.name for path in (done.folder / "bars").iterdir()) == ["BRK.B.csv", "MSFT.csv"]
    assert shown[1].startswith("MSFT: 30 bars, 2024-01-02 at 181.75 to 2024-02-13 at 210.75, largest move +0.6% on")
    assert not done.aside.rows
    assert check_folder(done.folder, "auto", 9).problems.errors == 0


def test_a_file_of_one_name_that_states_another_is_named(tmp_path: Path) -> None:
    (tmp_path / "AAPL.csv").write_text(wide("MSFT"), encoding="utf-8")
    assert "AAPL by its name, MSFT by its content" in imported(tmp_path, "AAPL.csv").aside.notes[0].reason
    (tmp_path / "raw" / "bars").mkdir(parents=True)
    (tmp_path / "AAPL.csv").rename(tmp_path / "raw" / "bars" / "AAPL.csv")
    assert any("states MSFT" in str(one) for one in check_folder(tmp_path / "raw", "auto", 9).problems.found)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("Symbol,date,close", lambda symbol, bar: f"{symbol},{bar[0]},{bar[4]}"),
        ("date,close,Name", lambda symbol, bar: f"{bar[0]},{bar[4]},NASDAQ:{symbol}"),
    ],
)
def test_two_names_in_one_file(tmp_path: Path, header: str, row: Callable[[str, Bar], str]) -> None:
    lines = [row(symbol, bar) for bar in BARS for symbol in ("NA", "TRUE")]
    (tmp_path / "prices.csv").write_text("\n".join([header, *lines]), encoding="utf-8")
    done = imported(tmp_path, "prices.csv")
    assert sorted(path.name for path in (done.folder / "bars").iterdir()) == ["NA.csv", "TRUE.csv"]


HOURS = [(hour, minute) for hour in range(9, 16) for minute in (30,)]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            "Symbol,date,close\n" + "".join(f"SAP GY Equity,{b[0]},{b[4]}\n" for b in BARS),
            "SAP GY .* listed in Frankfurt",
        ),
        ("date,close\n" + "".join(f"{b[0]},({b[4]})\n" for b in BARS), "row 2: a bar that cannot be used: -181.75"),
        ("date,close\n" + "".join(f"{b[0]},{b[4] * at}\n" for b in BARS for at in (1, 2)), "several rows of a time"),
        ("Symbol: A\ndate,close\n" + "".join(f"{b[0]},{b[4] * at}\n" for at in (1, 2) for b in BARS), "several rows"),
        (
            "time,close\n" + "".join(f"{b[0]} {hour + 6}:{minute},{b[4]}\n" for b in BARS for hour, minute in HOURS),
            "times of another clock than New York's: they go from 15:30 to 21:30",
        ),
        ("Datum;Schluss;Währung\n" + "".join(f"{b[0]};{b[4]};EUR\n" for b in BARS), "EUR"),
        ("Währung: EUR\n\nDatum;Schluss\n" + "".join(f"{b[0]};{b[4]}\n" for b in BARS), "EUR"),
        (SIMPLE.replace(f"{DAYS[3]},", f'{DAYS[3]},"', 1), "a quote of row 5 is not closed"),
    ],
)
def test_what_leaves_no_bar_is_refused_and_nothing_is_written(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "P.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=why):
        imported(tmp_path, "P.csv")
    assert not (tmp_path / "own").exists()


def test_the_page_has_the_headings_that_are_known() -> None:
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    assert [one.name for one in SOURCES if f"| {one.name} | `{one.shown}` |" not in page] == []


def test_spellings_of_a_share_are_one_share(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    (folder / "bars").mkdir(parents=True)
    for name in ("BRK-B", "BRKB", "KO"):
        (folder / "bars" / f"{name}.csv").write_text(SIMPLE, encoding="utf-8")
    (folder / "universe.csv").write_text("Symbol,GICS Sector\nBRK/B,Financials\nKO,Staples\n", encoding="utf-8")
    done = imported(tmp_path, "src")
    for read in (folder, done.folder):
        report = check_folder(read, "auto", 9)
        assert report.problems.errors == 0
        assert report.contents[0].startswith("bars: 2 symbols, 60 bars")
        assert "universe: 2 symbols, 2 sectors" in report.contents


def test_downloads_of_before_and_after_a_split_are_refused_with_the_day(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name, part, scale in (("A.csv", BARS[:15], 4), ("A (1).csv", BARS[15:], 1)):
        rows = "".join(f"{b[0]},{b[4] * scale},{b[4] * scale * 0.9:.6f}\n" for b in part)
        (tmp_path / "src" / name).write_text(f"date,close,adj close\n{rows}", encoding="utf-8")
    with pytest.raises(
        UsageError, match=rf"two bases: A has 783 on {DAYS[14]} in src/A\.csv, and 196\.75 on {DAYS[15]}"
    ):
        imported(tmp_path, "src")
    shutil.rmtree(tmp_path / "src")
    (tmp_path / "src").mkdir()
    for name, part, scale in (("A.csv", BARS[:20], 4), ("A (1).csv", BARS[10:], 1)):
        rows = "".join(f"{b[0]},{b[4] * scale}\n" for b in part)
        (tmp_path / "src" / name).write_text(f"date,close\n{rows}", encoding="utf-8")
    with pytest.raises(UsageError, match=rf"two bases: A has 191\.75 on {DAYS[10]} in src/A \(1\)\.csv, and 767 on"):
        imported(tmp_path, "src")
    joined = "".join(
        f"{b[0]},{b[4] * (4 if at < 15 else 1)},{b[4] * (4 if at < 15 else 1)}\n" for at, b in enumerate(BARS)
    )
    (tmp_path / "A.csv").write_text(f"date,close,adj close\n{joined}", encoding="utf-8")
    warned = [str(one) for one in check_folder(imported(tmp_path, "A.csv").folder, "auto", 9).problems.of("warning")]
    assert any(f"from {DAYS[14]} to {DAYS[15]} in its adjusted closes too" in one for one in warned)


def test_a_bar_without_its_adjusted_close_and_an_adjusted_contract_cost_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    rows = "".join(f"{b[0]},{b[4]},{'' if b is BARS[-1] else b[4]}\n" for b in BARS)
    (tmp_path / "src" / "NA.csv").write_text(f"date,close,adj close\n{rows}", encoding="utf-8")
    quotes = "".join(f"{DAYS[0]},{root}240719C00170000,1,2\n" for root in ("NA", "NA1"))
    (tmp_path / "src" / "chains.csv").write_text(f"quote_date,contract,bid,ask\n{quotes}", encoding="utf-8")
    (tmp_path / "src" / "news.csv").write_text(
        'symbol,published,title\nNA,"Fri, 05 Jan 2024 10:30:54 GMT",\'-5 % today\nTRUE,2024-01-05 10:30:00Z,x\n',
        encoding="utf-8",
    )
    report = check_folder(imported(tmp_path, "src").folder, "auto", 9)
    assert report.problems.errors == 0
    assert report.contents[0].startswith("bars: 1 symbols, 30 bars")
    assert {"headlines: 2 of 2 symbols, 2024-01-05 to 2024-01-05"} < set(report.contents)
    assert any(
        "NA1240719C00170000 names a contract that a corporate action has adjusted" in str(one)
        for one in report.problems.found
    )


def test_a_line_break_within_a_cell_costs_its_own_row(tmp_path: Path) -> None:
    rows = [f'{b[0]},"{b[4]}\n9"' if b is BARS[4] else f"{b[0]},{b[4]}" for b in BARS]
    (tmp_path / "AAPL.csv").write_text("date,close\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (left,) = imported(tmp_path, "AAPL.csv").aside.rows
    assert (left.row, left.reason) == (7, "a bar that cannot be used: '185.75 9' is no number")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AAPL.csv")
    with pytest.raises(UsageError, match=r"AAPL\.csv is a pipe or a device"):
        imported(tmp_path, "AAPL.csv")


def test_nothing_is_written_without_agreement(tmp_path: Path) -> None:
    (tmp_path / "AAPL.csv").write_text(SIMPLE, encoding="utf-8")
    done = imported(tmp_path, "AAPL.csv", agreed=lambda _: False)
    assert not done.made
    assert not done.folder.exists()


def test_bars_abroad_are_of_the_hours_and_days_of_their_own_exchange(tmp_path: Path) -> None:
    """A file of several places: times without a zone are each place's own, with one they are brought there."""
    rows = ["symbol,datetime,open,high,low,close,volume,currency"]
    for day in sessions("2024-05-07", 2, "XTKS"):
        # In New York's zone all but the first lie outside its session; the lunch break has no row.
        rows += [
            f"7203.T,{day} {at},3000,{3010 + hour},2990,{3000 + hour},1000,JPY"
            for hour, at in enumerate(("09:00", "10:00", "11:00", "12:30", "13:30", "14:30"))
        ]
        rows += [f"BTC-USD,{day}T{hour:02}:00Z,60000,60100,59900,{60000 + hour},2,USD" for hour in range(24)]
        rows += [f"SAP.DE,{day}T{hour:02}:00Z,150,151,149,{150 + hour / 10},500,EUR" for hour in range(7, 16)]
    (tmp_path / "hours.csv").write_text("\n".join(rows) + "\n")
    imported(tmp_path, "hours.csv")
    assert check_folder(tmp_path / "own", "auto", 1).problems.errors == 0
    tables = {path.stem: path.read_text().splitlines()[1:] for path in (tmp_path / "own" / "bars").iterdir()}
    closes = {
        symbol: [(row.split(",")[0], float(row.split(",")[4])) for row in rows] for symbol, rows in tables.items()
    }
    assert closes == {
        "7203.T": [("2024-05-07", 3005), ("2024-05-08", 3005)],
        "BTC-USD": [("2024-05-07", 60023), ("2024-05-08", 60023)],
        "SAP.DE": [("2024-05-07", 151.5), ("2024-05-08", 151.5)],  # its session ends at 15:30 UTC
    }
