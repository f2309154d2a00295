"""Market clocks and the exchange's regular hours, and imports of the libraries with pandas that they need."""

from __future__ import annotations

import bisect
import datetime as dt
import importlib
import sys
import threading
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

from chordesk.models.errors import MarketError
from chordesk.models.text import NEW_YORK

# Imports of libraries that load pandas, without the pyarrow that pandas loads wherever it is installed.
#
# It is there for Parquet files alone and takes 34 MB of each process (2026-11-23: pandas with it 75 MB, without it 41).
# Code that asks for pyarrow later gets it, and pandas can then read Parquet by it. Goes when pandas loads it on demand.

_ARROW = "pyarrow"
_lock = threading.Lock()


def import_arrowless(name: str) -> ModuleType:
    """Return a module by name. If pandas is first imported by it, pyarrow is left out."""
    with _lock:
        if _ARROW in sys.modules or "pandas" in sys.modules:
            return importlib.import_module(name)
        sys.modules[_ARROW] = None  # type: ignore[assignment]
        try:
            return importlib.import_module(name)
        finally:
            del sys.modules[_ARROW]


EXCHANGE = "XNYS"
FIRST_DAY = "1990-01-01"
_DECIDES_BEFORE = dt.timedelta(minutes=5)  # a session's close
_USUAL_CLOSE = dt.time(16)


def exchange_day(moment: dt.datetime) -> dt.date:
    return moment.astimezone(NEW_YORK).date()


@dataclass(frozen=True, slots=True)
class ExchangeHours:
    """Regular sessions in ascending order with their opens and closes (UTC), early closes included."""

    sessions: tuple[dt.date, ...]
    opens: tuple[dt.datetime, ...]
    closes: tuple[dt.datetime, ...]

    def is_session(self, day: dt.date) -> bool:
        at = bisect.bisect_left(self.sessions, day)
        return at < len(self.sessions) and self.sessions[at] == day

    def open_of(self, session: dt.date) -> dt.datetime:
        return self.opens[self._index(session)].astimezone(NEW_YORK)

    def close_of(self, session: dt.date) -> dt.datetime:
        return self.closes[self._index(session)].astimezone(NEW_YORK)

    def is_open(self, now: dt.datetime) -> bool:
        at = bisect.bisect_right(self.opens, now) - 1
        return at >= 0 and now < self.closes[at]

    def next_open(self, now: dt.datetime) -> dt.datetime:
        at = bisect.bisect_right(self.opens, now)
        if at == len(self.opens):
            raise MarketError(f"the exchange calendar ends before {now:%Y-%m-%d}", remedy="update exchange-calendars")
        return self.opens[at].astimezone(NEW_YORK)

    def last_closed(self, now: dt.datetime) -> dt.date:
        at = bisect.bisect_right(self.closes, now)
        if at == 0:
            raise MarketError(f"the exchange calendar begins on {self.sessions[0]}, after {now:%Y-%m-%d}")
        return self.sessions[at - 1]

    def until(self, session: dt.date, count: int) -> tuple[dt.date, ...]:
        end = self._index(session) + 1
        return self.sessions[max(end - count, 0) : end]

    def between(self, first: dt.date, last: dt.date) -> tuple[dt.date, ...]:
        return self.sessions[bisect.bisect_left(self.sessions, first) : bisect.bisect_right(self.sessions, last)]

    def after(self, session: dt.date, count: int) -> dt.date:
        """Return the session that is so many after this one. Raises MarketError when the calendar ends before it."""
        at = self._index(session) + count
        if at >= len(self.sessions):
            reason = f"the exchange calendar ends on {self.sessions[-1]}, before {count} sessions after {session}"
            raise MarketError(reason, remedy="ask over fewer sessions, or update exchange-calendars")
        return self.sessions[at]

    def _index(self, session: dt.date) -> int:
        at = bisect.bisect_left(self.sessions, session)
        if at == len(self.sessions) or self.sessions[at] != session:
            raise MarketError(f"{session} is no session of {EXCHANGE}")
        return at


@lru_cache(maxsize=1)
def exchange_hours() -> ExchangeHours:
    """Return the New York Stock Exchange since 1990. Built once: the calendar library takes a second to import."""
    calendar = import_arrowless("exchange_calendars").get_calendar(EXCHANGE, start=FIRST_DAY)
    return ExchangeHours(
        tuple(session.date() for session in calendar.sessions),
        tuple(dt.datetime.fromtimestamp(nanos / 1e9, dt.UTC) for nanos in calendar.opens_nanos.tolist()),
        tuple(dt.datetime.fromtimestamp(nanos / 1e9, dt.UTC) for nanos in calendar.closes_nanos.tolist()),
    )


# Days on which the exchange may close early, as (month, first day, last day). Any other session closes at 16:00, which
# spares most processes the second that the calendar takes; the tests hold this against the whole calendar.
_MAY_CLOSE_EARLY = ((7, 2, 6), (11, 22, 30), (12, 23, 31))


@lru_cache(maxsize=4096)
def usual_close(day: dt.date) -> dt.datetime:
    """Return a session's own close; of a day without a session, the close that it would have."""
    early = any(day.month == month and first <= day.day <= last for month, first, last in _MAY_CLOSE_EARLY)
    if early and exchange_hours().is_session(day):
        return exchange_hours().close_of(day)
    return dt.datetime.combine(day, _USUAL_CLOSE, NEW_YORK)


def decision_time(day: dt.date) -> dt.datetime:
    """Return when a replay decides on a day, five minutes before the session's own close: at 15:55 New York time, and
    at 12:55 where the exchange closes at 13:00."""
    return usual_close(day) - _DECIDES_BEFORE


class ReplayClock:
    """Clock that stands still on one session: five minutes before its own close, or at its open.

    By the former that day's bar counts as known: five minutes before the close stand for the close. Nothing later is.
    At the open the newest bar is that of the session before.
    """

    def __init__(self, day: dt.date, *, at_open: bool = False) -> None:
        self.day = day
        self._now = exchange_hours().open_of(day) if at_open else decision_time(day)
        self._session = exchange_hours().until(day, 2)[0] if at_open else day

    def now(self) -> dt.datetime:
        return self._now

    def is_open(self) -> bool:
        return exchange_hours().is_open(self._now)

    def next_open(self) -> dt.datetime:
        return exchange_hours().next_open(self._now)

    def session(self) -> dt.date:
        return self._session


class LiveClock:
    """Clock of real time. A session's bar is known from its close on, not while it is being made."""

    day = None

    def now(self) -> dt.datetime:
        return dt.datetime.now(NEW_YORK)

    def is_open(self) -> bool:
        return exchange_hours().is_open(self.now())

    def next_open(self) -> dt.datetime:
        return exchange_hours().next_open(self.now())

    def session(self) -> dt.date:
        return exchange_hours().last_closed(self.now())
