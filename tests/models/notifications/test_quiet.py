"""Quiet hours over midnight, and over the change to and from summer time."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.notice_channels import QuietHours

NEW_YORK, BERLIN = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin")
NIGHT = QuietHours.parse("22:00-07:00")


def at(text: str, zone: ZoneInfo = NEW_YORK, fold: int = 0) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).astimezone(dt.UTC)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-11-23 21:59", None),
        ("2026-11-23 22:00", "2026-11-24 07:00"),
        ("2026-11-23 23:59", "2026-11-24 07:00"),
        ("2026-11-24 00:00", "2026-11-24 07:00"),
        ("2026-11-24 06:59", "2026-11-24 07:00"),
        ("2026-11-24 07:00", None),
        ("2026-11-24 12:00", None),
    ],
)
def test_a_night_goes_over_midnight(now: str, until: str | None) -> None:
    assert NIGHT.until(at(now), NEW_YORK) == (at(until) if until else None)


def test_hours_within_a_day_end_on_it() -> None:
    lunch = QuietHours.parse("12:00-13:30")
    assert lunch.until(at("2026-11-23 12:00"), NEW_YORK) == at("2026-11-23 13:30")
    assert lunch.until(at("2026-11-23 13:30"), NEW_YORK) is None
    assert lunch.until(at("2026-11-23 11:59"), NEW_YORK) is None


def test_the_zone_decides_and_not_the_machine() -> None:
    now = at("2026-11-23 23:00", BERLIN)
    assert NIGHT.until(now, BERLIN) == at("2026-11-24 07:00", BERLIN)
    assert NIGHT.until(now, NEW_YORK) is None


@pytest.mark.parametrize(
    ("begin", "end", "hours"),
    [("2026-03-07 22:00", "2026-03-08 07:00", 8), ("2026-10-31 22:00", "2026-11-01 07:00", 10)],
)
def test_a_night_in_which_the_clock_changes_ends_at_its_hour(begin: str, end: str, hours: int) -> None:
    until = NIGHT.until(at(begin), NEW_YORK)
    assert until == at(end)
    assert until - at(begin) == dt.timedelta(hours=hours)


def test_an_hour_that_the_clock_repeats_is_quiet_once() -> None:
    hours = QuietHours.parse("00:30-01:30")
    first, second = at("2026-11-01 01:10"), at("2026-11-01 01:10", fold=1)
    assert second - first == dt.timedelta(hours=1)
    assert hours.until(first, NEW_YORK) == at("2026-11-01 01:30")
    assert hours.until(second, NEW_YORK) is None


def test_an_end_that_the_clock_leaves_out_comes_as_much_later() -> None:
    hours = QuietHours.parse("23:00-02:30")
    assert hours.until(at("2026-03-08 01:00"), NEW_YORK) == at("2026-03-08 03:30")


@given(
    st.datetimes(dt.datetime(2026, 1, 1), dt.datetime(2027, 1, 1)),
    st.times(),
    st.times(),
    st.sampled_from([NEW_YORK, BERLIN, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("UTC")]),
)
def test_quiet_hours_end_later_and_are_over_then(
    now: dt.datetime, begin: dt.time, end: dt.time, zone: ZoneInfo
) -> None:
    if begin.replace(second=0, microsecond=0) == end.replace(second=0, microsecond=0):
        return
    hours = QuietHours(begin.replace(second=0, microsecond=0), end.replace(second=0, microsecond=0))
    moment = now.replace(tzinfo=dt.UTC)
    until = hours.until(moment, zone)
    if until is not None:
        assert moment < until <= moment + dt.timedelta(hours=25)
        assert hours.until(until, zone) in (None, *_next(hours, until, zone))


def _next(hours: QuietHours, until: dt.datetime, zone: ZoneInfo) -> tuple[dt.datetime, ...]:
    """Where a change of the clock lets one night end as the next one begins, that one's end."""
    after = hours.until(until, zone)
    return (after,) if after is not None and after - until > dt.timedelta(hours=22) else ()


@pytest.mark.parametrize("text", ["22-7", "24:00-07:00", "22:60-07:00", "22:00", "22:00-07:00 ", "", "on", "7:00-8:00"])
def test_other_texts_are_no_hours(text: str) -> None:
    with pytest.raises(ValueError, match="write HH:MM-HH:MM"):
        QuietHours.parse(text)


def test_a_whole_day_is_no_quiet_hours() -> None:
    with pytest.raises(ValueError, match="whole day"):
        QuietHours.parse("07:00-07:00")
