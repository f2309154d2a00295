"""The next runs of the schedule."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from chordesk.models.answers import Frozen
from chordesk.models.errors import MarketError
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import NEW_YORK, exchange_hours


class ScheduledRun(Frozen):
    """A run that the schedule starts. name: of its entry; at: the first time from now on, on a session of the
    exchange."""

    name: Literal["premarket", "midday", "episode"]
    kind: Literal["screen", "episode"]
    at: dt.datetime


_ENTRIES: tuple[tuple[Literal["premarket", "midday", "episode"], Literal["screen", "episode"]], ...] = (
    ("premarket", "screen"),
    ("midday", "screen"),
    ("episode", "episode"),
)


def next_runs(settings: Settings, now: dt.datetime) -> list[ScheduledRun]:
    """Return the next run of each entry that is not off, the soonest first. The schedule runs in real time, also where
    the market replays a day."""
    times = ((name, kind, getattr(settings, name)) for name, kind in _ENTRIES)
    found = [(name, kind, _next(time, now)) for name, kind, time in times if time != "off"]
    return sorted((ScheduledRun(name=name, kind=kind, at=at) for name, kind, at in found if at), key=lambda one: one.at)


def _next(time: str, now: dt.datetime) -> dt.datetime | None:
    """Return the next moment at this time of day in New York on a session; None where the calendar ends before."""
    hours, today = exchange_hours(), now.astimezone(NEW_YORK).date()
    try:
        if hours.is_session(today) and (at := _at(today, time)) > now:
            return at
        return _at(hours.next_open(max(now, _end_of(today))).date(), time)
    except MarketError:
        return None


def _at(day: dt.date, time: str) -> dt.datetime:
    hour, minute = time.split(":")
    return dt.datetime.combine(day, dt.time(int(hour), int(minute)), NEW_YORK)


def _end_of(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), NEW_YORK)
