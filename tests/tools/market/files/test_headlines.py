"""Own headlines and earnings dates: never later than now; without a time of day, not before the next session."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import SettingError
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.files.news_and_earnings import latest, read_headlines
from chordesk.tools.market.files.tables import Problems
from chordesk.tools.market.protocol import EarningsSource
from tests.tools.conftest import Call
from tests.tools.market.files.folders import HEADER, market, sessions, walk, write_table

DAYS = sessions("2020-06-01", 10)  # Monday to Friday of the next week
COLUMNS = ("Ticker", "publishedAt", "Title", "Publisher", "URL")
DATES = ("symbol", "date", "time", "announced", "eps estimate", "eps")


def write(
    tmp_path: Path, *rows: tuple[object, ...], header: tuple[str, ...] = COLUMNS, name: str = "headlines.csv"
) -> Path:
    write_table(tmp_path / "own" / "bars" / "A.csv", HEADER, walk(sessions("2020-06-01", 60)))
    write_table(tmp_path / "own" / name, header, rows)
    return tmp_path / "own"


def problems(folder: Path, level: str) -> list[str]:
    return [str(one) for one in check_folder(folder, "auto", 9).problems.of(level)]  # type: ignore[arg-type]


def test_a_headline_shows_from_its_time_on(tmp_path: Path, call: Call) -> None:
    folder = write(
        tmp_path,
        ("a", "2020-06-02 15:54:59-04:00", "before", "wire", "https://example.org/1"),
        ("A", "2020-06-02T19:55:00Z", "at", "", ""),
        ("A", "2020-06-02 15:55:01-04:00", "after", "wire", ""),
        ("A", "2020-06-01 22:00:00+02:00", "abroad", "wire", ""),
    )
    own = market(tmp_path, folder, DAYS[1])
    assert [row.headline for row in own.headlines("A", 5)] == ["at", "before", "abroad"]
    assert [row.headline for row in own.headlines("A", 1)] == ["at"]
    answer = call(own, "news_list", symbols=["A"], urls=True).payload
    assert answer["headlines"][0]["source"] == "not stated"
    assert answer["headlines"][1]["url"] == "https://example.org/1"


@pytest.mark.parametrize("time", ["2020-06-05", "2020-06-05 00:00:00-04:00", "2020-06-06", "2020-06-07T00:00:00-04:00"])
def test_a_headline_without_a_time_of_day_counts_from_the_next_session_s_open(tmp_path: Path, time: str) -> None:
    folder = write(tmp_path, ("A", time, "undated", "wire", ""))
    friday, monday = (market(tmp_path, folder, dt.date.fromisoformat(day)) for day in ("2020-06-05", "2020-06-08"))
    assert friday.headlines("A", 5) == []
    (found,) = monday.headlines("A", 5)
    assert found.published_at.isoformat() == "2020-06-08T09:30:00-04:00"


def test_json_lines_are_read_as_csv_is(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "headlines.csv").unlink()
    lines = '{"symbol": "A", "time": "2020-06-02T09:00:00-04:00", "headline": "one", "source": null}\n\n'
    (folder / "headlines.jsonl").write_text(lines, encoding="utf-8")
    (found,) = market(tmp_path, folder, DAYS[3]).headlines("A", 5)
    assert (found.headline, found.source, found.url) == ("one", "not stated", None)
    (folder / "headlines.jsonl").write_text(lines + "[1]\n{half\n", encoding="utf-8")
    errors = problems(folder, "error")
    assert errors[0] == "headlines.jsonl, row 3: has a list where an object is wanted"
    assert errors[1].startswith("headlines.jsonl, row 4: is no JSON")


def test_a_time_without_a_zone_is_an_error_that_the_market_repeats(tmp_path: Path) -> None:
    folder = write(tmp_path, ("A", "2020-06-02 09:00:00", "zoneless", "wire", ""))
    (error,) = problems(folder, "error")
    assert error == (
        "headlines.csv, row 2, column publishedAt: '2020-06-02 09:00:00' has no zone; "
        "write it as 2020-06-02 09:00:00-04:00, or Z for UTC"
    )
    with pytest.raises(SettingError) as caught:
        market(tmp_path, folder, DAYS[3]).headlines("A", 5)
    assert error in str(caught.value)


def test_markup_is_taken_out_and_pointed_out(tmp_path: Path) -> None:
    folder = write(tmp_path, ("A", "2020-06-02", "<b>AT&amp;T</b> <script>x</script> 2 < 3&lt;i&gt;", "wire", ""))
    assert problems(folder, "warning")[-1] == "headlines.csv, row 2, column Title: has markup, which is taken out"
    (found,) = market(tmp_path, folder, DAYS[3]).headlines("A", 5)
    assert found.headline == "AT&T x 2 < 3"


def test_headlines_of_names_without_bars_and_empty_ones_are_pointed_out(tmp_path: Path) -> None:
    folder = write(tmp_path, ("B", "2020-06-02", "of B", "w", ""), ("A", "2020-06-02", "", "w", ""))
    warnings = problems(folder, "warning")
    assert "headlines.csv, row 3: no headline, and is left out" in warnings
    assert "headlines.csv, column symbol: B has 1 headlines and no bars" in warnings


def test_a_file_without_its_columns_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path, ("A", "2020-06-02"), header=("symbol", "time"))
    assert problems(folder, "error") == ["headlines.csv, row 1: has no column headline; its columns are symbol, time"]


@given(minutes=st.lists(st.integers(-20_000, 20_000), max_size=30), limit=st.integers(1, 25))
def test_no_headline_is_of_the_future(tmp_path_factory: pytest.TempPathFactory, minutes: list[int], limit: int) -> None:
    now = ReplayClock(DAYS[5]).now()
    times = [now.astimezone(dt.UTC) + dt.timedelta(minutes=minute) for minute in minutes]
    path = tmp_path_factory.mktemp("news") / "headlines.csv"
    write_table(path, COLUMNS, [("A", time.isoformat(), f"h{at}", "w", "") for at, time in enumerate(times)])
    rows = read_headlines(path, path.name, {"A"}, Problems()).get("A", [])
    found = latest(rows, now, limit)
    assert all(row.published_at <= now for row in found)
    assert [row.published_at for row in found] == sorted((row.published_at for row in found), reverse=True)
    timed = [time for time in times if time.time() != dt.time() and time <= now]
    assert len(found) >= min(len(timed), limit)


def test_headlines_that_changed_before_they_are_first_read_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, ("A", "2020-06-02", "as it was", "wire", ""))
    own = market(tmp_path, folder, DAYS[3])
    write(tmp_path, ("A", "2020-06-02", "as it became later", "wire", ""))
    with pytest.raises(SettingError, match=r"has changed: the data here are [0-9a-f]{8}, those in use are"):
        own.headlines("A", 5)
    assert [row.headline for row in market(tmp_path, folder, DAYS[3]).headlines("A", 5)] == ["as it became later"]


def test_dates_are_known_from_their_announcement_or_after_their_day(tmp_path: Path, call: Call) -> None:
    folder = write(
        tmp_path,
        ("A", "2020-06-10", "bmo", "", 1.5, 1.25),
        ("a", "2020-07-20", "AMC", "2020-07-01", "", ""),
        ("A", "2020-07-30", "", "", "", ""),
        header=DATES,
        name="earnings.csv",
    )

    def asked(day: str) -> dict[str, object]:
        own = market(tmp_path, folder, dt.date.fromisoformat(day))
        assert isinstance(own, EarningsSource)
        answer = call(own, "earnings_dates", symbols=["A"]).payload
        return answer["earnings"][0] if answer["earnings"] else {}

    assert asked("2020-06-10") == {}
    before = asked("2020-07-01")
    assert before["next"] is None
    assert [row["date"] for row in before["past"]] == ["2020-06-10"]  # type: ignore[attr-defined]
    after = asked("2020-07-02")
    assert (after["next"]["date"], after["next"]["timing"]) == ("2020-07-20", "afterClose")  # type: ignore[index]
    assert after["past"][0]["epsActual"] == 1.25  # type: ignore[index]


def test_a_cell_that_cannot_be_read_is_an_error_with_its_place(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        ("A", "soon", "", "", "", ""),
        ("A", "2020-06-10", "noonish", "", "", ""),
        ("A", "2020-06-11", "", "", "a lot", ""),
        ("A", "2020-06-12", "", "", "", ""),
        ("A", "2020-06-12", "", "", "", ""),
        ("../A", "2020-06-12", "", "", "", ""),
        header=DATES,
        name="earnings.csv",
    )
    errors = [str(one) for one in check_folder(folder, "auto", 9).problems.of("error")]
    assert "earnings.csv, row 2, column date: 'soon' cannot be read as a day" in errors[0]
    assert "earnings.csv, row 3, column time: 'noonish' is no time of day: write bmo, amc or during" in errors[1]
    assert errors[2] == "earnings.csv, row 4, column eps estimate: 'a lot' is no number"
    assert errors[3] == "earnings.csv, row 6: A has a second row of 2020-06-12; the first is row 5"
    assert errors[4].startswith("earnings.csv, row 7, column symbol: '../A' is no symbol")
