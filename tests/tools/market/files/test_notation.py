"""Notation: a whole file decides how its numbers and days are read; two meanings, or two notations, are refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tools.market.files.bars import corporate_actions
from chordesk.tools.market.files.data_folder import check_folder, data_folder, read_prices
from chordesk.tools.market.files.notation import Ambiguous, Survey, plain_number
from chordesk.tools.market.files.tables import Problems
from tests.tools.market.files.folders import sessions, walk, write_table

DAYS = sessions("2024-01-02", 70)


def read(kinds: dict[str, str], rows: list[tuple[str, ...]], delimiter: str = ",") -> list[tuple[str, ...]]:
    columns = {name: [row[at] for row in rows] for at, name in enumerate(kinds)}
    survey = Survey(kinds, delimiter)  # type: ignore[arg-type]
    survey.see(columns, range(2, len(rows) + 2))
    notation = survey.decided()
    return list(zip(*(notation.plain(name, kinds[name], cells) for name, cells in columns.items()), strict=True))  # type: ignore[arg-type]


BOTH = {"close": "number", "volume": "count"}


@pytest.mark.parametrize(
    ("rows", "delimiter", "first"),
    [
        ([("183,17", "720.613"), ("184,00", "1.040.823")], ";", ("183.17", "720613")),
        ([("183,176", "720613")], ";", ("183.176", "720613")),
        ([("0,421", "900")], "\t", ("0.421", "900")),
        ([("183,176", "5"), ("1183,176", "5")], "\t", ("183.176", "5")),
        ([("1'183.50", "1'040'823")], ",", ("1183.50", "1040823")),
        ([("1 183,50", "1\u202f040\u202f823")], ";", ("1183.50", "1040823")),
        ([("$1,183.50", "0.97M"), ("(2.50)", "1.04B"), ("2.50-", "12K")], ",", ("1183.50", "970000")),
        ([("183.176", "720,613"), ("N/A", "-")], ",", ("183.176", "720613")),
        ([("183.17", "1.040.823"), ("184.00", "720.613")], ",", ("183.17", "1040823")),
        ([("183,17", "1,040,823")], ";", ("183.17", "1040823")),
        ([("183.17", "12,34,567")], ",", ("183.17", "1234567")),
        ([("183,17", "1,2E+06"), ("--", "\u2014")], ";", ("183.17", "1200000")),
        ([("183,17", "1,20 Mio."), ("184,00", "3,4 Mrd")], ";", ("183.17", "1200000")),
        ([("'183.50", "N/A")], ",", ("183.50", "")),
        ([("1.070", "1.200.000"), ("985", "980.000")], ";", ("1070", "1200000")),
        ([("1.070", "1200000")], ";", ("1.070", "1200000")),
    ],
)
def test_numbers_are_read_as_the_whole_file_writes_them(
    rows: list[tuple[str, ...]], delimiter: str, first: tuple[str, ...]
) -> None:
    assert read(BOTH, rows, delimiter)[0] == first


@pytest.mark.parametrize(
    ("rows", "message", "row"),
    [
        ([("183.17", "1"), ("183,17", "1")], "'183,17' shows decimal commas, and row 2 '183.17' decimal points", 3),
        ([("183,176", "1")], "'183,176' may be 183176 or 183.176, and no other", 2),
        ([("1.070", "1"), ("985", "1")], "'1.070' may be 1070 or 1.070", 2),
        ([("183.176", "1.200.000")], "'183.176' may be 183176 or 183.176", 2),
        ([("1,183.50", "1.040,5"), ("1,183.50", "1,040.5")], "'1,040.5' shows decimal points, and row 2 '1.040,5'", 3),
        ([("12,30 \u20ac", "1")], "is priced in EUR; write amounts alone", 2),
        ([("183.17", "720.613"), ("184.20", "815.110")], "'720.613' may be 720613", 2),
    ],
)
def test_two_notations_or_two_meanings_are_refused(rows: list[tuple[str, ...]], message: str, row: int) -> None:
    with pytest.raises(Ambiguous, match=message) as caught:
        read(BOTH, rows)
    assert caught.value.cell.row == row


@given(
    value=st.decimals(0, 10**9, places=2), marks=st.sampled_from([(".", ","), (",", "."), (".", "'"), (",", "\u00a0")])
)
def test_any_number_comes_back_from_any_notation(value: object, marks: tuple[str, str]) -> None:
    decimal, group = marks
    text = f"{value:,}".replace(",", "\0").replace(".", decimal).replace("\0", group)
    assert float(plain_number(text, decimal)) == float(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        ([f"{day:%d/%m/%y}" for day in DAYS], "2024-01-02"),
        (["01/02/2024", "01/16/2024"], "2024-01-02"),
        (["02.01.2024", "16.01.2024"], "2024-01-02"),
        (["Jun 28, 2024", "Jun 3, 2024"], "2024-06-28"),
        (["28-Jun-24", "3. Juni 2024", "28 juin 2024"], "2024-06-28"),
        (["Fri, 05 Jun 2020 10:30:54 GMT"], "2020-06-05 10:30:54+00:00"),
        (["2020-06-05 4:30 PM ET"], "2020-06-05 16:30:00-04:00"),
        (["20240102  16:00:00 US/Eastern"], "2024-01-02 16:00:00-05:00"),
        ([str(45_293 + at) for at in (0, 1, 2, 3, 6)], "2024-01-02"),
        ([str(45_293 - 1462 + at) for at in (0, 1, 2, 3, 6)], "2024-01-02"),
        (["05MAR2024"], "2024-03-05"),
        (["5 de marzo de 2024", "2 stycznia 2024"], "2024-03-05"),
        (["Fr. 05.01.2024", "16.01.2024"], "2024-01-05"),
        (["20240102 093000"], "2024-01-02 09:30:00"),
        (["1704205800", "1704292200"], "2024-01-02 09:30:00-05:00"),
        (["1704153600000"], "2024-01-02"),
        (["1704171600000000000"], "2024-01-02"),
    ],
)
def test_days_are_read_as_the_whole_column_writes_them(cells: list[str], first: str) -> None:
    assert read({"day": "session"}, [(cell,) for cell in cells])[0] == (first,)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["01/16/2024", "13/06/2024"], "'13/06/2024' has the day first, and row 2 '01/16/2024' has the month first"),
        (["01/02/2024", "01/03/2024"], "'01/02/2024' may begin with the day or the month"),
        (
            ["01/16/2024", *(f"{day:02}/05/2024" for day in (6, 7, 8, 9, 10))],
            "'10/05/2024' would be on a weekend with the month first",
        ),
        (["2024-01-02", "2024-16-01"], "'2024-16-01' has no such month: perhaps year, day, month"),
        (
            [*(f"{day}/01/2024" for day in (16, 17, 18)), *(f"2024-0{day}-01 00:00:00" for day in (2, 3, 4))],
            "a spreadsheet may have exchanged day and month",
        ),
    ],
)
def test_two_orders_of_days_are_refused(cells: list[str], message: str) -> None:
    with pytest.raises(Ambiguous, match=message):
        read({"day": "session"}, [(cell,) for cell in cells])


def closes(
    decimals: int, adjusted: int, paid: dict[int, float], start: float = 120.0
) -> Path | list[tuple[object, ...]]:
    """Rows of (day, close, adjusted close): closes rounded where they are written, adjusted ones from exact closes."""
    rows = [float(str(row[4])) * start / 100 + 0.000_123 * at for at, row in enumerate(walk(DAYS))]
    factor, found = 1.0, []
    for at in range(len(rows) - 1, -1, -1):
        found.append((DAYS[at], f"{rows[at]:.{decimals}f}", f"{rows[at] * factor:.{adjusted}f}"))
        factor *= 1 - paid[at] / rows[at - 1] if at in paid else 1.0
    return found[::-1]


@pytest.mark.parametrize(
    ("decimals", "adjusted", "start"), [(2, 2, 1), (2, 6, 1), (2, 2, 120), (2, 6, 120), (0, 6, 120)]
)
def test_rounding_is_no_split_and_no_dividend(tmp_path: Path, decimals: int, adjusted: int, start: float) -> None:
    rows = closes(decimals, adjusted, {40: start / 20}, start)
    write_table(tmp_path / "bars" / "A.csv", ("date", "close", "adj close"), rows)  # type: ignore[arg-type]
    prices = read_prices(data_folder(tmp_path, Problems()), "auto", Problems())
    found = [(dt.date.fromordinal(int(day)), split) for day, split, *_ in prices.actions.tolist()]
    assert found == [(DAYS[40], 1.0)], "the one dividend, of 5 %, and nothing of the rounding"


def test_adjusted_closes_of_another_source_are_not_used(tmp_path: Path) -> None:
    rows = [
        (day, row[4], float(str(row[4])) * (0.9 if at % 2 else 0.95))
        for at, (day, row) in enumerate(zip(DAYS, walk(DAYS), strict=True))
    ]
    write_table(tmp_path / "bars" / "A.csv", ("date", "close", "adj close"), rows)
    report = check_folder(tmp_path, "auto", 9)
    assert "raw prices alone of 1" in report.contents[0]
    assert "not splits and dividends: they are not used" in str(report.problems.of("warning")[0])


def test_no_action_depends_on_a_later_bar() -> None:
    import numpy as np

    rows = closes(2, 6, {30: 2.0, 50: 0.4})
    day = np.array([row[0].toordinal() for row in rows], dtype=np.int32)  # type: ignore[union-attr]
    close, adjusted = (np.array([float(str(row[at])) for row in rows]) for at in (1, 2))  # type: ignore[union-attr]
    whole = corporate_actions(day, close, adjusted).actions
    for end in (40, 55, 69):
        known = [action for action in whole if action.day.toordinal() <= day[end - 1]]
        assert corporate_actions(day[:end], close[:end], adjusted[:end]).actions == known
