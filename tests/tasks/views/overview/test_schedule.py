"""The schedule: settings give its first entries, people change them; each starts on sessions of the exchange."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.settings import Settings
from chordesk.models.text import NEW_YORK
from chordesk.tasks import schedules
from chordesk.tasks.cli import schedule
from chordesk.tasks.schedule_days import checked_days, first_due, is_due
from chordesk.tools.market.clock import exchange_hours
from tests.builders import a_run

# A Wednesday; Thursday is Thanksgiving, Friday a session.
DAY = dt.date(2026, 11, 25)


def at(hour: int, minute: int = 0, day: dt.date = DAY) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(hour, minute), NEW_YORK)


def starts(session: Session, settings: Settings, now: dt.datetime) -> dict[str, dt.datetime]:
    found = schedules.starting(session, settings, now.astimezone(dt.UTC))
    assert [moment for _, moment in found] == sorted(moment for _, moment in found)
    return {one.name: moment for one, moment in found}


@pytest.mark.parametrize(
    ("now", "premarket", "midday"),
    [
        (at(7), at(8, 30), at(12, 30)),
        (at(8, 30), at(8, 30, dt.date(2026, 11, 27)), at(12, 30)),
        (at(23, 59), at(8, 30, dt.date(2026, 11, 27)), at(12, 30, dt.date(2026, 11, 27))),
        (at(0, 0, dt.date(2026, 11, 28)), at(8, 30, dt.date(2026, 11, 30)), at(12, 30, dt.date(2026, 11, 30))),
    ],
)
def test_the_next_run_is_on_a_session(
    store: Store, now: dt.datetime, premarket: dt.datetime, midday: dt.datetime
) -> None:
    with store.read() as session:
        assert starts(session, Settings(), now) == {"premarket": premarket, "midday": midday}


@pytest.mark.parametrize(
    ("exchange", "given", "now", "then"),
    [
        # From 15:30 on Wednesday to Thanksgiving's eve and a session that ends at 13:00.
        ("XNYS", "close-30m", "2026-11-25T15:29-05:00", "2026-11-25T15:30-05:00"),
        ("XNYS", "close-30m", "2026-11-25T15:30-05:00", "2026-11-27T12:30-05:00"),
        ("XLON", "close-30m", "2026-12-23T20:00+00:00", "2026-12-24T12:00+00:00"),
        ("XHKG", "close-5m", "2026-12-23T20:00+08:00", "2026-12-24T11:55+08:00"),
        ("XTKS", "open+15m", "2026-11-26T09:15+09:00", "2026-11-27T09:15+09:00"),
        ("XTKS", "12:45", "2026-11-20T12:45+09:00", "2026-11-24T12:45+09:00"),  # over a weekend and a holiday
        ("XLON", "08:00", "2026-03-27T12:00+00:00", "2026-03-30T08:00+01:00"),  # into summer time
        ("CRYPTO", "close-5m", "2026-11-28T23:54+00:00", "2026-11-28T23:55+00:00"),  # a Saturday
        ("CRYPTO", "close-5m", "2026-11-28T23:55+00:00", "2026-11-29T23:55+00:00"),
        ("CRYPTO", "close+30m", "2026-11-28T12:00+00:00", "2026-11-28T23:59+00:00"),  # of a setting
    ],
)
def test_a_time_is_of_each_sessions_own_hours(store: Store, exchange: str, given: str, now: str, then: str) -> None:
    """And beat's crontab, in New York's time, is of that start alone: also when beat was down for some minutes."""
    settings = Settings(exchange=exchange, premarket=given, midday="off")
    asked, due = dt.datetime.fromisoformat(now), dt.datetime.fromisoformat(then)
    with store.read() as session:
        assert starts(session, settings, asked) == {"premarket": due}
        late = schedules.beat_schedule_now(session, settings, due + dt.timedelta(minutes=20))
    there = due.astimezone(NEW_YORK)
    fields = {"minute": there.minute, "hour": there.hour, "day_of_month": there.day, "month_of_year": there.month}
    found = late["premarket"]["schedule"]
    assert {name: getattr(found, name) for name in fields} == {name: {value} for name, value in fields.items()}


def test_what_people_change_takes_the_place_of_the_settings(store: Store) -> None:
    settings = Settings(midday="18:00")
    with store.session() as session:
        schedules.change(session, settings, "premarket", "ann", schedules.Change(at="09:15"))
        schedules.change(session, settings, "midday", "ann", schedules.Change(enabled=False))
        schedules.add(session, settings, "late", "screen", "15:00", "ann")
    with store.session() as session:
        assert starts(session, settings, at(7)) == {"premarket": at(9, 15), "late": at(15)}
        left = schedules.remove(session, settings, "premarket", "ann")
        assert left is not None
        assert left.at == "08:30"
        assert schedules.remove(session, settings, "late", "ann") is None
        assert starts(session, settings, at(7)) == {"premarket": at(8, 30)}


@pytest.mark.parametrize(
    ("exchange", "given", "says"),
    [
        ("XNYS", "close-400m", "close-400m is 09:20, before the open at 09:30"),
        ("XTKS", "open-10m", "open-10m is 08:50, before the open at 09:00"),
        ("XNYS", "close-300m", "close-300m is 08:00, before the open at 09:30 on"),  # of half days
        ("XNYS", "close+5m", "close+5m is 16:05, after the close at 16:00"),
        ("XNYS", "open", None),
        ("XNYS", "08:30", None),
    ],
)
def test_a_time_that_leads_out_of_the_session_is_said(exchange: str, given: str, says: str | None) -> None:
    entry = schedules.Entry(name="a", kind="screen", at=given, exchange=exchange, enabled=True, setting=None)
    found = schedules.outside(entry)
    assert found is None if says is None else says in str(found)


def test_a_forecast_needs_no_redis_and_is_not_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'desk.db'}")
    assert settings.redis_url is None
    with store.read() as session:
        rows = schedules.entries(session, settings)
    assert set(schedule._forecasts(settings, rows)) == {"premarket", "midday"}
    assert all("at most" in said for said in schedule._forecasts(settings, rows).values())
    monkeypatch.setattr(schedule, "FORECAST_SECONDS", 0.0)
    assert schedule._forecasts(settings, rows)["midday"] == "not known: it took longer than 0 seconds"


def test_an_entry_may_go_by_another_exchange_than_the_desks(store: Store) -> None:
    """Thanksgiving is a session in Tokyo, and its slot is the day there. Without one of its own it follows the desk."""
    settings = Settings(premarket="off", midday="off")
    with store.session() as session:
        schedules.add(session, settings, "asia", "screen", "close-30m", "ann", "tokyo")
        schedules.add(session, settings, "own", "screen", "close-30m", "ann")
    asked = dt.datetime.fromisoformat("2026-11-25T20:00-05:00")
    asia = dt.datetime.fromisoformat("2026-11-26T15:00+09:00")
    with store.read() as session:
        assert starts(session, settings, asked) == {"asia": asia, "own": at(12, 30, dt.date(2026, 11, 27))}
        london = settings.model_copy(update={"exchange": "XLON"})
        assert starts(session, london, asked)["own"] == dt.datetime.fromisoformat("2026-11-26T16:00+00:00")
        kept = [(one.name, schedules.elsewhere(one, settings)) for one in schedules.entries(session, settings)]
        assert kept == [("asia", "close-30m of XTKS (Tokyo)"), ("own", None)]
        found = schedules.beat_schedule_now(session, settings, asked)["asia"]["schedule"]
        assert (found.hour, found.minute, found.day_of_month) == ({1}, {0}, {26})  # in New York
        assert [schedules.exchange_at(session, settings, name) for name in ("asia", "own")] == ["XTKS", "XNYS"]


def test_a_day_that_has_its_run_gets_no_second(store: Store) -> None:
    with store.session() as session:
        a_run(session, schedule="midday", slot=DAY.isoformat())
    with store.read() as session:
        assert starts(session, Settings(premarket="off"), at(7)) == {"midday": at(12, 30, dt.date(2026, 11, 27))}


def test_what_does_not_fit_is_refused_with_its_value(store: Store) -> None:
    settings = Settings()
    with store.session() as session:
        with pytest.raises(UsageError, match="00:30 of another day"):
            schedules.add(session, Settings(exchange="CRYPTO"), "late", "screen", "close+30m", "ann")
        times = [("late", "screen", time) for time in ("24:00", "noon", "close-30")]
        for wrong in (
            ("Late", "screen", "15:00"),
            ("late", "trade", "15:00"),
            ("late", "nothing", "15:00"),
            *times,
            ("midday", "screen", "15:00"),
        ):
            with pytest.raises(UsageError, match=r"Late|trade|nothing|24:00|midday|noon|close-30"):
                schedules.add(session, settings, *wrong, "ann")
        with pytest.raises(UsageError, match=r"no exchange 'atlantis'.*XTKS \(Tokyo\)"):
            schedules.add(session, settings, "late", "screen", "15:00", "ann", "atlantis")
        with pytest.raises(NotFound, match="nightly"):
            schedules.change(session, settings, "nightly", "ann", schedules.Change(at="15:00"))
        with pytest.raises(UsageError, match="DESK_MIDDAY"):
            schedules.remove(session, settings, "midday", "ann")
        assert [one.name for one in schedules.entries(session, settings)] == ["premarket", "midday"]


@pytest.mark.parametrize(
    ("exchange", "days", "after", "due"),
    [
        ("XNYS", "mon,thu", "2026-11-25", ["2026-11-30", "2026-12-03", "2026-12-07"]),  # not on Thanksgiving
        ("XNYS", "week-first", "2026-12-28", ["2026-12-28", "2027-01-04", "2027-01-11"]),
        ("XNYS", "week-first", "2027-01-12", ["2027-01-19", "2027-01-25"]),  # its Monday is a holiday
        ("XNYS", "week-last", "2026-12-21", ["2026-12-24", "2026-12-31", "2027-01-08"]),
        ("XNYS", "month-first", "2026-12-02", ["2027-01-04", "2027-02-01"]),
        ("XNYS", "month-last", "2026-12-02", ["2026-12-31", "2027-01-29"]),
        ("CRYPTO", "sun", "2026-12-02", ["2026-12-06", "2026-12-13"]),
        ("CRYPTO", "month-last", "2026-12-31", ["2026-12-31", "2027-01-31"]),
        ("XTKS", "2027-01-04", "2026-12-02", ["2027-01-04"]),  # and no second time
    ],
)
def test_an_entry_has_the_sessions_of_its_days(exchange: str, days: str, after: str, due: list[str]) -> None:
    hours, day, found = exchange_hours(exchange), dt.date.fromisoformat(after), list[str]()
    while (first := first_due(days, hours, day)) is not None and len(found) < len(due):
        found.append(first.isoformat())
        day = first + dt.timedelta(days=1)
    assert found == due
    walked = [each for each in hours.between(dt.date.fromisoformat(after), day) if is_due(days, hours, each)]
    assert [each.isoformat() for each in walked][: len(due)] == due


@pytest.mark.parametrize(
    ("days", "why"),
    [
        ("sun", "no session on a Sunday"),
        ("mon,sunday", "'sunday' of the days"),
        ("", "'' of the days"),
        ("2026-12-25", "closed on Friday, 2026-12-25"),
        ("2026-12-05", "closed on Saturday"),
        ("2026-11-24", "has passed"),
        ("2026-02-30", "no date"),
        ("2199-01-04", "the end of the calendar"),
    ],
)
def test_days_without_a_session_are_refused(days: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        checked_days(days, exchange_hours("XNYS"), DAY)


def test_an_entry_takes_what_its_run_takes(store: Store) -> None:
    settings = Settings()
    with store.session() as session:
        given = ["symbols=AAPL, MSFT", "budget_tokens=5000"]
        made = schedules.add(session, settings, "weekly", "research", "09:45", "ann", days="Wed,mon", given=given)
        assert (made.days, made.request) == ("mon,wed", {"symbols": ["AAPL", "MSFT"], "budget_tokens": 5000})
        assert made.said == "research budget_tokens=5000 symbols=AAPL,MSFT"
        later = schedules.change(session, settings, "weekly", "ann", schedules.Change(given=["force=true"]))
        assert later.request == {**(made.request or {}), "force": True}
        for kind, wrong, why in (
            ("research", ["symbols=../x"], "symbols"),
            ("research", ["most=5"], "no field of research"),
            ("research", ["symbols"], "NAME=VALUE"),
            ("analyze", [], "symbols: Field required"),
            ("analyze", ["symbols=AAPL", "depth=bottomless"], "depth"),
            ("analyze", ["symbols=AAPL", "symbols=MSFT"], "twice"),
        ):
            with pytest.raises(UsageError, match=why):
                schedules.add(session, settings, "wrong", kind, "09:45", "ann", given=wrong)
        assert "wrong" not in [one.name for one in schedules.entries(session, settings)]
