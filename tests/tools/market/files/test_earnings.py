"""Own earnings dates: an announced one is known from its announcement on, another not before its day is over."""

from __future__ import annotations

from pathlib import Path

from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.protocol import EarningsSource
from tests.tools.conftest import Call
from tests.tools.market.files.folders import HEADER, market, sessions, walk, write_table

DAYS = sessions("2020-06-01", 60)
COLUMNS = ("symbol", "date", "time", "announced", "eps estimate", "eps")


def write(tmp_path: Path, *rows: tuple[object, ...]) -> Path:
    write_table(tmp_path / "own" / "bars" / "A.csv", HEADER, walk(DAYS))
    write_table(tmp_path / "own" / "earnings.csv", COLUMNS, rows)
    return tmp_path / "own"


def test_dates_are_known_from_their_announcement_or_after_their_day(tmp_path: Path, call: Call) -> None:
    folder = write(
        tmp_path,
        ("A", "2020-06-10", "bmo", "", 1.5, 1.25),
        ("a", "2020-07-20", "AMC", "2020-07-01", "", ""),
        ("A", "2020-07-30", "", "", "", ""),
    )

    def asked(day: str) -> dict[str, object]:
        own = market(tmp_path, folder, next(one for one in DAYS if str(one) == day))
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
    )
    errors = [str(one) for one in check_folder(folder, "auto", 9).problems.of("error")]
    assert "earnings.csv, row 2, column date: 'soon' cannot be read as a day" in errors[0]
    assert "earnings.csv, row 3, column time: 'noonish' is no time of day: write bmo, amc or during" in errors[1]
    assert errors[2] == "earnings.csv, row 4, column eps estimate: 'a lot' is no number"
    assert errors[3] == "earnings.csv, row 6: A has a second row of 2020-06-12; the first is row 5"
    assert errors[4].startswith("earnings.csv, row 7, column symbol: '../A' is no symbol")
