"""Clocks and the hours of exchanges."""

from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models.errors import MarketError
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import LiveClock, ReplayClock, decision_time, exchange_day, exchange_hours


def at(day: str, time: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=NEW_YORK)


def test_weekends_and_holidays_are_no_sessions() -> None:
    for day in ("2010-08-14", "2010-07-05", "2009-11-26"):
        assert not exchange_hours().is_session(dt.date.fromisoformat(day))
        with pytest.raises(MarketError, match=day):
            exchange_hours().open_of(dt.date.fromisoformat(day))


@pytest.mark.parametrize(
    ("time", "is_open", "following"),
    [
        ("09:29", False, ("2010-08-13", "09:30")),
        ("09:30", True, ("2010-08-16", "09:30")),  # a Friday: the next open is Monday's
        ("15:59", True, ("2010-08-16", "09:30")),
        ("16:00", False, ("2010-08-16", "09:30")),
    ],
)
def test_open_from_the_first_to_before_the_last_minute(time: str, is_open: bool, following: tuple[str, str]) -> None:
    now = at("2010-08-13", time)
    assert exchange_hours().is_open(now) is is_open
    assert exchange_hours().next_open(now) == at(*following)


def test_a_bar_is_known_from_the_close_on() -> None:
    hours = exchange_hours()
    assert hours.last_closed(at("2010-08-13", "15:59")) == dt.date(2010, 8, 12)
    assert hours.last_closed(at("2010-08-13", "16:00")) == dt.date(2010, 8, 13)
    assert hours.last_closed(at("2010-08-15", "12:00")) == dt.date(2010, 8, 13)


def test_the_calendar_names_its_ends() -> None:
    hours = exchange_hours()
    with pytest.raises(MarketError, match=f"ends on {hours.sessions[-1]}, before 1 sessions after") as caught:
        hours.after(hours.sessions[-1], 1)
    assert "update exchange-calendars" in str(caught.value)
    with pytest.raises(MarketError, match="ends before"):
        hours.next_open(hours.opens[-1])
    with pytest.raises(MarketError, match="begins on 1990-01-02"):
        hours.last_closed(at("1989-12-29", "17:00"))


def test_the_replay_clock_stands_before_the_close() -> None:
    clock = ReplayClock(dt.date(2010, 8, 13))
    assert clock.now().isoformat() == "2010-08-13T15:55:00-04:00"
    assert clock.now() == clock.now()
    assert clock.session() == dt.date(2010, 8, 13)
    assert clock.is_open()
    assert clock.next_open() == at("2010-08-16", "09:30")
    half = ReplayClock(dt.date(2009, 11, 27))
    assert (half.now().isoformat(), half.is_open()) == ("2009-11-27T12:55:00-05:00", True)


def test_every_session_is_decided_on_five_minutes_before_its_own_close() -> None:
    hours = exchange_hours()
    before = dt.timedelta(minutes=5)
    assert [day for day in hours.sessions if decision_time(day) != hours.close_of(day) - before] == []


def test_the_live_clock_runs_and_knows_only_closed_sessions() -> None:
    clock = LiveClock()
    before = dt.datetime.now(dt.UTC)
    assert before <= clock.now() <= dt.datetime.now(dt.UTC)
    assert clock.now().tzinfo is NEW_YORK
    assert exchange_hours().close_of(clock.session()) <= clock.now() < clock.next_open()
    assert clock.is_open() == exchange_hours().is_open(clock.now())


def test_sessions_after_one_and_between_two() -> None:
    hours = exchange_hours()
    assert hours.after(dt.date(2010, 7, 2), 1) == dt.date(2010, 7, 6)  # over Independence Day
    assert hours.after(dt.date(2010, 3, 1), 10) == dt.date(2010, 3, 15)
    assert hours.between(dt.date(2010, 7, 2), dt.date(2010, 7, 6)) == (dt.date(2010, 7, 2), dt.date(2010, 7, 6))
    assert hours.between(dt.date(2010, 7, 3), dt.date(2010, 7, 5)) == ()


# By the exchanges' own hours: 2010-08-12 of New York (15:55) is 20:55 in London, and 04:55 of the 13th in Tokyo.
@pytest.mark.parametrize(
    ("exchange", "session", "following"),
    [
        ("XLON", "2010-08-12", "2010-08-13T08:00:00+01:00"),
        ("XTKS", "2010-08-12", "2010-08-13T09:00:00+09:00"),
        ("XHKG", "2010-08-12", "2010-08-13T10:00:00+08:00"),
        ("CRYPTO", "2010-08-11", "2010-08-13T00:00:00+00:00"),
    ],
)
def test_of_another_exchange_a_bar_is_known_from_its_own_close(exchange: str, session: str, following: str) -> None:
    clock = ReplayClock(dt.date(2010, 8, 12))
    assert str(clock.session(exchange)) == session
    assert clock.next_open(exchange).isoformat() == following
    assert exchange_hours(exchange).close_of(clock.session(exchange)) <= clock.now()


@pytest.mark.parametrize(
    ("exchange", "day", "now"),
    [
        ("XLON", "2024-12-24", "2024-12-24T12:25:00+00:00"),  # a half day
        ("XTKS", "2024-12-24", "2024-12-24T15:25:00+09:00"),
        ("XHKG", "2024-12-24", "2024-12-24T11:55:00+08:00"),  # a half day without its break
        ("CRYPTO", "2024-12-28", "2024-12-28T23:55:00+00:00"),  # a Saturday
    ],
)
def test_a_replay_of_another_exchange_stands_before_its_own_close(exchange: str, day: str, now: str) -> None:
    clock = ReplayClock(dt.date.fromisoformat(day), exchange=exchange)
    assert (clock.now().isoformat(), clock.is_open(), str(clock.session())) == (now, True, day)
    assert exchange_day(clock.now(), exchange) == clock.session()
    at_open = ReplayClock(clock.day, exchange=exchange, at_open=True)
    assert at_open.session() < clock.day, "at the open its own bar is not known"


def test_in_a_lunch_break_an_exchange_is_closed() -> None:
    hours = exchange_hours("XTKS")
    for time, is_open in (("11:29", True), ("11:30", False), ("12:29", False), ("12:30", True)):
        now = dt.datetime.fromisoformat(f"2024-12-24T{time}:00+09:00")
        assert hours.is_open(now) is is_open
        if not is_open:
            assert hours.next_open(now).isoformat() == "2024-12-24T12:30:00+09:00"


# Those whose calendars are built within half a second; Seoul takes seven.
@pytest.mark.parametrize("exchange", ["XLON", "XETR", "XTKS", "XHKG", "XNSE", "XASX", "CRYPTO"])
def test_opens_decisions_and_closes_follow_each_other(exchange: str) -> None:
    hours = exchange_hours(exchange)
    last = None
    for session, begins, ends in list(zip(hours.sessions, hours.opens, hours.closes, strict=True))[-600:]:
        decides = decision_time(session, exchange)
        assert begins < decides < ends
        assert hours.is_open(decides)
        assert exchange_day(decides, exchange) == session
        assert last is None or last <= begins
        assert last is None or hours.next_open(last - dt.timedelta(seconds=1)) == begins
        last = ends
    if exchange == "CRYPTO":
        assert hours.opens[1:] == hours.closes[:-1], "around the clock"
