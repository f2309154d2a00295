"""Cells: what a file may write for a number, a day and a moment, and nothing guessed."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.text import NEW_YORK
from chordesk.tools.market.files.tables import day_of, moment_of, number_of


@pytest.mark.parametrize(
    ("text", "value"),
    [("10", 10), (" 1e3 ", 1000), ("-2.5", -2.5), ("1,234.5", 1234.5), ("12,345,678", 12345678)],
)
def test_numbers(text: str, value: float) -> None:
    assert number_of(text) == value


@pytest.mark.parametrize("text", ["", "nan", "N/A", "-", "null"])
def test_an_empty_cell_is_no_number_and_no_error(text: str) -> None:
    found = number_of(text)
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize("text", ["10,5", "1.234,5", "$3", "3%", "1,23", "inf", "ten"])
def test_a_number_that_is_ambiguous_is_refused(text: str) -> None:
    assert isinstance(number_of(text), str)


@pytest.mark.parametrize("text", ["2020-06-05", "2020/6/5", "20200605", "2020-06-05 16:00:00", "2020-06-05T00:00Z"])
def test_days(text: str) -> None:
    assert day_of(text) == dt.date(2020, 6, 5)


@pytest.mark.parametrize(
    "text", ["05/06/2020", "5 June 2020", "43987", "1591315200", "2020-13-01", "", "9999-12-31", "0001-01-01"]
)
def test_a_day_that_is_ambiguous_is_refused(text: str) -> None:
    assert isinstance(day_of(text), str)


@given(moment=st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2050, 1, 1), timezones=st.just(dt.UTC)))
def test_a_moment_is_read_as_it_is_written(moment: dt.datetime) -> None:
    assert moment_of(moment.isoformat()) == moment
    assert moment_of(moment.astimezone(NEW_YORK).isoformat(" ")) == moment


@pytest.mark.parametrize("text", ["0001-01-01 00:10:00+10:00", "9999-12-31T23:59:00-05:00", "9999-12-31"])
def test_a_moment_at_the_calendar_s_ends_is_refused(text: str) -> None:
    assert "is no day of 1800 to 2199" in str(moment_of(text, NEW_YORK))


def test_a_moment_without_a_zone_needs_one() -> None:
    assert "has no zone" in str(moment_of("2020-06-05 09:00"))
    assert moment_of("2020-06-05 09:00", NEW_YORK) == dt.datetime(2020, 6, 5, 13, tzinfo=dt.UTC)
    assert moment_of("2020-06-05") == dt.date(2020, 6, 5)


@given(text=st.text(max_size=30))
def test_any_text_gets_an_answer(text: str) -> None:
    assert isinstance(number_of(text), float | str)
    assert isinstance(day_of(text), dt.date | str)
    assert isinstance(moment_of(text), dt.datetime | dt.date | str)
