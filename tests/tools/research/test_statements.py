"""Statements of a company as first filed, and the ratios of them; two listings of one company."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.company import Statement
from chordesk.models.market import Listing
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.universe import same_company
from chordesk.tools.model_tools.company_statements import periods, standing, statements_part, year_of
from tests.tools.conftest import Call
from tests.tools.market.files.folders import HEADER, market, sessions, walk, write_table

ENDS = [dt.date(2023, 3, 31), dt.date(2023, 6, 30), dt.date(2023, 9, 30), dt.date(2023, 12, 31), dt.date(2024, 3, 31)]


def row(end: dt.date, item: str, value: float, after: int = 30, days: int | None = 91) -> Statement:
    filed = end + dt.timedelta(days=after)
    start = end - dt.timedelta(days=days - 1) if days else None
    known = dt.datetime.combine(filed, dt.time(), NEW_YORK)
    return Statement(symbol="A", start=start, period=end, filed=filed, item=item, value=value, known_at=known)


def test_the_first_filing_of_a_figure_counts_and_a_restatement_is_named() -> None:
    end = ENDS[-1]
    rows = [row(end, "Revenues", 9.0, after=90), row(end, "revenue", 8.0), row(end, "Revenues", 10.0)]
    (found,) = periods([*rows, row(end, "assets", 70.0, days=None), row(end, "Revenues", 33.0, days=364)])
    assert found.figures == {"revenue": 10.0, "assets": 70.0}
    assert found.restated == ("revenue",)


def test_growth_is_on_the_same_quarter_of_the_year_before() -> None:
    rows = [row(end, "eps", value) for end, value in zip(ENDS, (1.0, 2, 3, 4, 1.5), strict=True)]
    part = statements_part("A", rows, dt.date(2024, 5, 10))
    assert part["newest"] == "quarter to 2024-03-31, 40 days old"
    assert "absent" not in part
    assert part["epsGrowth"] == 0.5
    assert part["revenueGrowth"] is None
    assert [one["period"] for one in part["periods"]] == [ENDS[-1].isoformat(), ENDS[0].isoformat()]


@pytest.mark.parametrize(
    ("today", "absent"),
    [
        (dt.date(2024, 8, 6), None),  # that of the year before was filed after 30 days, and a week is left
        (dt.date(2024, 8, 7), "the report of the quarter to 2024-06-30 is not there"),
        (dt.date(2024, 11, 7), "the reports of the quarters to 2024-06-30 and 2024-09-30 are not there"),
    ],
)
def test_a_report_that_should_be_there_is_said_to_be_missing(today: dt.date, absent: str | None) -> None:
    assert standing(periods([row(end, "eps", 1.0) for end in ENDS]), today).get("absent") == absent


def test_where_no_year_before_is_known_a_fiscal_years_report_is_waited_for_and_years_follow_years() -> None:
    quarter = periods([row(ENDS[-1], "eps", 1.0)])  # filed after 30 days: the next is due after 30 + 20 + 7
    assert "absent" not in standing(quarter, dt.date(2024, 8, 26))
    assert standing(quarter, dt.date(2024, 8, 27))["absent"] == "the report of the quarter to 2024-06-30 is not there"
    weeks = periods([row(dt.date(2024, 12, 28), "eps", 1.0)])
    absent = "the report of the quarter to about 2025-03-29 is not there"
    assert standing(weeks, dt.date(2025, 6, 10))["absent"] == absent
    years = periods([row(ENDS[3], "eps", 5.0, days=365)])
    assert standing(years, dt.date(2024, 12, 1)) == {"newest": "year to 2023-12-31, 336 days old"}


def test_a_year_needs_four_quarters_in_a_row() -> None:
    rows = [row(end, "eps", 1.0) for end in ENDS]
    assert year_of(periods(rows), "eps") == (4.0, "")
    total, why = year_of(periods([one for one in rows if one.period != ENDS[3]]), "eps")
    assert total is None
    assert "2023-09-30" in why
    year = row(ENDS[3], "eps", 5.0, days=365)
    assert year_of(periods([year]), "eps") == (5.0, "")
    newest, before = row(ENDS[4], "eps", 2.5), row(ENDS[0], "eps", 1.0)
    assert year_of(periods([year, newest, before]), "eps") == (6.5, ""), "an annual report has no fourth quarter"
    assert year_of(periods([year, newest]), "eps")[0] is None


COLUMNS = ("symbol", "period end", "filed", "item", "value")


def folder(tmp_path: Path, rows: list[tuple[Any, ...]], header: tuple[str, ...] = COLUMNS) -> Path:
    write_table(tmp_path / "own" / "bars" / "A.csv", HEADER, walk(sessions("2020-01-02", 110)))
    write_table(tmp_path / "own" / "statements.csv", header, rows)
    return tmp_path / "own"


def test_a_figure_is_shown_from_the_day_of_its_filing_on(tmp_path: Path, call: Call) -> None:
    ends = ("2019-03-31", "2019-06-30", "2019-09-30", "2019-12-31")
    old = [
        ("A", end, "2020-02-03", item, value)
        for end in ends
        for item, value in (("EPS", 1.25), ("Revenue", 50.0), ("Net income", 4.0))
    ]
    more = [("A", ends[-1], "2020-02-03", "shares", 10.0), ("A", ends[-1], "2020-02-03", "equity", 400.0)]
    own = folder(tmp_path, [*old, *more, ("A", "2020-03-31", "2020-05-04", "EPS", 2.25)])

    def parts(day: str) -> dict[str, Any]:
        at = market(tmp_path, own, dt.date.fromisoformat(day))
        found: dict[str, Any] = call(
            at, "company_get", symbols=["A"], parts=["statements", "valuation", "fundamentals"]
        ).payload
        return found

    assert "statements" not in parts("2020-01-31")["companies"][0]
    before, after = (parts(day)["companies"][0] for day in ("2020-05-01", "2020-05-04"))
    close = before["lastClose"]
    assert before["statements"]["periods"][0]["period"] == "2019-12-31"
    assert before["valuation"]["priceToEarnings"] == pytest.approx(close / 5, abs=0.01)
    assert before["valuation"]["priceToBook"] == pytest.approx(close * 10 / 400, abs=0.01)
    assert before["valuation"]["priceToSales"] == pytest.approx(close * 10 / 200, abs=0.01)
    assert before["fundamentals"]["trailingPE"] == before["valuation"]["priceToEarnings"]
    assert before["fundamentals"]["profitMargin"] == 0.08
    assert after["statements"]["periods"][0] == {
        "period": "2020-03-31", "days": None, "filed": "2020-05-04", "eps": 2.25,
    }  # fmt: skip
    assert after["valuation"]["priceToEarnings"] == pytest.approx(after["lastClose"] / 6, abs=0.01)
    assert [one["day"] for one in after["valuation"]["history"]] == ["2020-05-04", "2020-02-03"]


def test_peers_are_of_the_sector_where_it_has_five_and_know_nothing_that_is_filed_later(
    tmp_path: Path, call: Call
) -> None:
    names = [*"ABCDEFG", "H"]
    own = tmp_path / "own"
    for name in names:
        write_table(own / "bars" / f"{name}.csv", HEADER, walk(sessions("2020-01-02", 110)))
    write_table(own / "universe.csv", ("Symbol", "Sector"), [(name, "X" if name < "G" else "Y") for name in names])
    filed = [(name, "2019-12-31", "2020-02-03", "equity", 50.0 * place) for place, name in enumerate(names, 1)]
    late = ("F", "2020-03-31", "2020-05-04", "equity", 1.0)
    shares = [(name, "2019-12-31", "2020-02-03", "shares", 1.0) for name in names]
    write_table(own / "statements.csv", COLUMNS, [*filed, *shares, late])

    def valued(symbol: str, day: str) -> dict[str, Any]:
        at = market(tmp_path, own, dt.date.fromisoformat(day))
        found = call(at, "company_get", symbols=[symbol], parts=["valuation"]).payload["companies"][0]
        assert isinstance(found, dict)
        return {"close": found["lastClose"], **found["valuation"]}

    before = valued("A", "2020-05-01")
    assert before["peers"]["mediansOf"] == "5 others of the sector X"
    assert before["peers"]["priceToBook"] == round(before["close"] / 200, 2), "of B to F the equity of D is the median"
    after = valued("A", "2020-05-04")
    assert after["peers"]["priceToBook"] == round(after["close"] / 150, 2), "F is above the others now"
    assert valued("G", "2020-05-01")["peers"]["mediansOf"] == "7 others of the whole universe"
    alone = folder(tmp_path / "alone", [("A", "2019-12-31", "2020-02-03", "equity", 9.0), (*shares[0],)])
    at = market(tmp_path, alone, dt.date(2020, 5, 1))
    lacks = call(at, "company_get", symbols=["A"], parts=["valuation"]).payload["companies"][0]["valuation"]["lacks"]
    assert "peers: fewer than 5 other names have a ratio" in lacks


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (("A", "2020-03-31", "2020-03-01", "EPS", 1), "was filed on 2020-03-01, before its period ended on 2020-03-31"),
        (("A", "2019-12-31", "2020-02-03", "EPS", 2), "EPS of A to 2019-12-31 is 1 in row 2 of the same filing"),
        (("A", "2019-12-31", "2020-02-03", "EPS", ""), "no value"),
        (("A", "2019-12-31", "2020-02-03", "", 1), "no item"),
        (("A", "2019-12-31", "soon", "EPS", 1), "cannot be read"),
        (("?", "2019-12-31", "2020-02-03", "EPS", 1), "is no symbol"),
    ],
)
def test_a_bad_row_is_refused_by_file_and_row(tmp_path: Path, wrong: tuple[Any, ...], problem: str) -> None:
    own = folder(tmp_path, [("A", "2019-12-31", "2020-02-03", "EPS", 1), wrong])
    (error,) = check_folder(own, "auto", 9).problems.of("error")
    assert (error.file, error.row) == ("statements.csv", 3)
    assert problem in str(error)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (Listing(symbol="UA", name="Under Armour, Inc. Class C"), Listing(symbol="UAA", name="Under Armour Inc"), True),
        (
            Listing(symbol="GOOG", name="Alphabet Inc. Class C"),
            Listing(symbol="GOOGL", name="Alphabet (Class A)"),
            True,
        ),
        (Listing(symbol="A", name="Same Inc", company="1"), Listing(symbol="B", name="Same Corp", company="2"), False),
        (Listing(symbol="A", name="One", company="7"), Listing(symbol="B", name="Other", company="7"), True),
        (Listing(symbol="A"), Listing(symbol="B"), False),
        (Listing(symbol="C", name="Citigroup Inc."), Listing(symbol="CFG", name="Citizens Financial Group"), False),
    ],
)
def test_two_listings_of_one_company(first: Listing, second: Listing, same: bool) -> None:
    assert same_company(first, second) is same
