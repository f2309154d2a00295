"""Captures of the whole market become a data folder in which nothing is known before it was captured."""

from __future__ import annotations

import csv
import datetime as dt
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.samples.importing import import_data
from chordesk.tools.samples.pystock import PRICES, REPORTS
from tests.examples import examples
from tests.tools.market.files.folders import market, sessions

DAYS = sessions("2015-03-23", 8)


def price(symbol: str, day: dt.date, close: float = 10.0, adjusted: float | None = None, volume: int = 9) -> list[Any]:
    return [symbol, day, close, close, close, close, volume, close if adjusted is None else adjusted]


def report(symbol: str, end: str, focus: str = "Q1", eps: object = 1.5, amended: bool = False) -> list[Any]:
    return [symbol, end, amended, focus, 2015, "10-Q", 100.0, "", 7.0, 1.6, eps, 0.0, 50, "", "", 5, 30, 4, -1, -2]


def capture(root: Path, day: dt.date, prices: list[list[Any]], reports: list[list[Any]], names: str, end: str) -> None:
    def table(header: tuple[str, ...], rows: list[list[Any]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, lineterminator=end).writerows([header, *rows])
        return text.getvalue().encode()

    listed = "".join(f"{name}\t{name} Inc{end}" for name in names).encode()
    files = {"symbols.txt": listed, "prices.csv": table(PRICES, prices), "reports.csv": table(REPORTS, reports)}
    path = root / f"{day:%Y}" / f"{day:%Y%m%d}.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def imported(root: Path) -> Any:
    done = import_data(["pystock"], root.parent / "own", force=True, source=root)
    assert check_folder(done.folder, "auto", 9).problems.errors == 0
    return done


def test_a_capture_folder_becomes_a_market_of_its_time(tmp_path: Path) -> None:
    root = tmp_path / "captures"
    a = [100.0, 101.0, 50.0, 51.0, 50.5]  # a split of 2 for 1 on the third day, and a dividend on the fifth
    factor = [0.5, 0.5, 1.0, 0.98, 1.0]
    for at, day in enumerate(DAYS[:5]):
        rows = [price("A", day, a[at])]
        rows += [price("A", DAYS[at - 1], a[at - 1], a[at - 1] * (factor[at - 1] if at in (2, 4) else 1))] if at else []
        rows += [price("B", day, 20.0)] * 2 if at < 3 else []
        rows += [price("C", day, 30.0 if at > 2 else 0.0), price("C", DAYS[at - 1], 29.0)] if at > 1 else []
        rows += [["D", day, "n/a", 1, 1, 1, 1, 1], ["D", "never", 1, 1, 1, 1, 1, 1], ["E", 1]] if not at else []
        listed = "FGHIJKLM" + ("AB" if at < 2 else "ABC" if at < 3 else "AC")
        reports = [report("A", "2015-02-28"), report("A", "2015-02-28", eps=2.0, amended=True)] if at == 1 else []
        capture(root, day, rows, [*reports, report("A", "2015-02-28")] if at == 3 else reports, listed, "\r\n")
    (root / "2015" / "20150330.tar.gz").write_bytes(b"no archive")
    done = imported(root)
    names = {day: [one.symbol for one in market(tmp_path, done.folder, day).universe("sp500")] for day in DAYS[:5]}
    assert list(names.values()) == [["A", "B"], ["A", "B"], ["A", "B"], ["A", "C"], ["A", "C"]]
    last = market(tmp_path, done.folder, DAYS[4])
    assert last.listing("A").name == "A Inc"
    assert last.traded("A", 9).close.tolist() == [50, 50.5, 50, 51, 50.5]
    split, dividend = last.actions("A", DAYS[0])
    assert (split.day, split.split, dividend.day, dividend.split, dividend.dividend) == (DAYS[2], 2, DAYS[4], 1, 1.02)
    assert {one.known_at.date() for one in last.statements("A")} == {DAYS[2]}, "the morning after its capture"
    found = {one.item: (one.start, one.value) for one in last.statements("A")}
    assert (found["eps_diluted"], found["assets"]) == ((dt.date(2014, 12, 1), 1.5), (None, 50))
    kinds = {(one.file.partition("/")[2], one.row): one.reason for one in done.aside.rows}
    for place, reason in {
        ("20150325.tar.gz:prices.csv", 6): "not above zero",
        ("20150325.tar.gz:prices.csv", 7): "capture of its own day",
        ("20150323.tar.gz:prices.csv", 4): "the same row again",
        ("20150323.tar.gz:prices.csv", 5): "cannot be read",
        ("20150323.tar.gz:prices.csv", 7): "other cells",
        ("20150324.tar.gz:reports.csv", 3): "a second report",
        ("20150326.tar.gz:reports.csv", 2): "an earlier capture",
        ("20150330.tar.gz", None): "cannot be read",
    }.items():
        assert reason in kinds[place], (place, kinds)


def test_a_folder_without_captures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no capture YYYY/YYYYMMDD\.tar\.gz"):
        import_data(["pystock"], tmp_path / "own", force=False, source=tmp_path)
    with pytest.raises(UsageError, match=r"desk data import pystock --from FOLDER"):
        import_data(["pystock"], tmp_path / "own", force=False)


Rows = st.sets(st.tuples(st.sampled_from("ABC"), st.integers(0, len(DAYS) - 1), st.integers(0, 2)), min_size=1)


@settings(max_examples=examples(20), deadline=None)
@given(prices=Rows, reports=st.sets(st.tuples(st.sampled_from("ABC"), st.integers(0, len(DAYS) - 1)), max_size=6))
def test_nothing_is_visible_before_its_capture(tmp_path_factory: Any, prices: Any, reports: Any) -> None:
    """prices: (symbol, capture, how many sessions before it the row is of); reports: (symbol, capture)."""
    root = tmp_path_factory.mktemp("x") / "captures"
    prices |= {("Z", at, 0) for at in range(len(DAYS))}
    for at, day in enumerate(DAYS):
        rows = [price(symbol, DAYS[at - back]) for symbol, own, back in sorted(prices) if own == at and at >= back]
        listed = "".join(sorted({row[0] for row in rows}))
        capture(root, day, rows, [report(one, "2014-12-31") for one, own in sorted(reports) if own == at], listed, "\n")
    folder = imported(root).folder
    for at, day in enumerate(DAYS):
        seen = market(root.parent, folder, day)
        for symbol in "ABC":
            own = [DAYS[one] for one in range(at + 1) if (symbol, one, 0) in prices]
            assert (list(seen.bars(symbol, 99).dates) if not seen.unknown([symbol]) else []) == own
            if own:
                now = seen.clock.now()
                shown = {one.known_at.date() for one in seen.statements(symbol) if one.known_at <= now}
                before = sorted(one for name, one in reports if name == symbol)
                assert bool(shown) == (bool(before) and before[0] < at)
