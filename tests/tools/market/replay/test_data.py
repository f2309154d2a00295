from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path

import numpy as np
import pytest

from chordesk.models.errors import NotConfigured
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.replay import market as module
from chordesk.tools.market.replay.market import LOST, ROW, ReplayData, clean, replay_data
from tests.tools.conftest import Raw


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


def test_the_sessions_that_are_lost_are_those_of_the_exchange_s_calendar(data: ReplayData) -> None:
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


def test_no_row_breaks_its_own_range(data: ReplayData) -> None:
    columns = data.columns
    assert (columns.low <= np.minimum(columns.open, columns.close)).all()
    assert (columns.high >= np.maximum(columns.open, columns.close)).all()
    assert (columns.low > 0).all()


def test_rows_end_at_the_asked_day(data: ReplayData) -> None:
    rows = data.rows("AAPL", dt.date(2010, 8, 14))
    assert dt.date.fromordinal(int(data.columns.day[rows][-1])) == dt.date(2010, 8, 13)
    empty = data.rows("QEP", dt.date(2010, 6, 30))
    assert empty.start == empty.stop
    assert data.rows("NOPE", dt.date(2010, 8, 20)) == slice(0, 0)


def test_sectors_come_from_the_package(data: ReplayData) -> None:
    listing = data.listings["MMM"]
    assert (listing.name, listing.sector, listing.industry) == (
        "3M Company",
        "Industrials",
        "Industrial Conglomerates",
    )
    assert sum(symbol in data.listings for symbol in data.symbols) == 442


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


def test_parsing_and_loading_are_quick(tmp_path: Path) -> None:
    began = time.process_time()
    load(tmp_path)
    parsed = time.process_time()
    load(tmp_path)
    loaded = time.process_time()
    assert parsed - began < 0.5
    assert loaded - parsed < 0.05
    assert len(os.listdir(tmp_path / "cache")) == 1


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
