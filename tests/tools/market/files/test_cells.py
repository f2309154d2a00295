"""Cells: what a file may write for a number, a day and a moment, and nothing guessed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.text import NEW_YORK
from chordesk.tools.market.files.tables import Unreadable, day_of, moment_of, number_of

DAY = dt.date(2020, 6, 5)


@pytest.mark.parametrize(
    ("parse", "texts", "value"),
    [
        (number_of, ["1234.5", " 1.2345e3 ", "1,234.5"], 1234.5),
        (number_of, ["12,345,678"], 12345678),
        (number_of, ["-2.5"], -2.5),
        (number_of, ["", "nan", "N/A", "-", "null"], None),
        (day_of, ["2020-06-05", "2020/6/5", "20200605", "2020-06-05 16:00:00", "2020-06-05T00:00Z"], DAY),
        (moment_of, ["2020-06-05"], DAY),
    ],
)
def test_usual_forms_are_read(parse: Callable[[str], object], texts: list[str], value: object) -> None:
    assert [parse(text) for text in texts] == [value] * len(texts)


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (number_of, ["10,5", "1.234,5", "$3", "3%", "1,23", "inf", "ten", "5_0", "\u0665", "0x10"]),
        (day_of, ["05/06/2020", "5 June 2020", "43987", "1591315200", "2020-13-01", "", "9999-12-31", "0001-01-01"]),
        (moment_of, ["2020-06-05 09:00", "0001-01-01 00:10:00+10:00", "9999-12-31T23:59:00-05:00", "9999-12-31"]),
    ],
)
def test_what_is_ambiguous_is_refused(parse: Callable[[str], object], texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(Unreadable):
            parse(text)


@given(moment=st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2050, 1, 1), timezones=st.just(dt.UTC)))
def test_a_moment_is_read_as_it_is_written(moment: dt.datetime) -> None:
    assert moment_of(moment.isoformat()) == moment
    assert moment_of(moment.astimezone(NEW_YORK).isoformat(" ")) == moment
    assert moment_of("2020-06-05 09:00", NEW_YORK) == dt.datetime(2020, 6, 5, 13, tzinfo=dt.UTC)


@given(text=st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (number_of, day_of, moment_of):
        with suppress(Unreadable):
            parse(text)
