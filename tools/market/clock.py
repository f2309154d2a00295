"""Market clocks and the regular hours of exchanges, and imports of the libraries with pandas that they need."""

from __future__ import annotations

import bisect
import datetime as dt
import importlib
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType
from typing import NamedTuple

from chordesk.models.errors import MarketError
from chordesk.models.exchanges import EXCHANGES, HOME, exchange_code
from chordesk.models.exchanges import at_exchange as at_exchange
from chordesk.models.exchanges import zone_of as zone_of
from chordesk.tools.market.protocol import MarketClock

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


def exchange_day(moment: dt.datetime, exchange: str = HOME) -> dt.date:
    """Return the date of a moment where an exchange is. exchange: the code of its row."""
    return moment.astimezone(zone_of(exchange)).date()


def account_day(moment: dt.datetime) -> dt.date:
    """Return the day of an account at a moment, by which daily losses, orders a day and reports go: New York's."""
    return exchange_day(moment, HOME)


def day_of(moment: dt.datetime, symbol: str) -> dt.date:
    """Return the date of a moment where a symbol is listed."""
    return exchange_day(moment, exchange_code(symbol))


def clock_day(clock: MarketClock) -> dt.date:
    """Return the date of a clock's now, where its own exchange is."""
    return exchange_day(clock.now(), clock.exchange)


@dataclass(frozen=True, slots=True)
class ExchangeHours:
    """Regular sessions in ascending order with their opens and closes (UTC), early closes included.

    pauses: begins and ends of the lunch breaks of the sessions that have one, in ascending order.
    """

    sessions: tuple[dt.date, ...]
    opens: tuple[dt.datetime, ...]
    closes: tuple[dt.datetime, ...]
    exchange: str = HOME
    pauses: tuple[tuple[dt.datetime, dt.datetime], ...] = ()

    def is_session(self, day: dt.date) -> bool:
        at = bisect.bisect_left(self.sessions, day)
        return at < len(self.sessions) and self.sessions[at] == day

    def open_of(self, session: dt.date) -> dt.datetime:
        return self._local(self.opens[self._index(session)])

    def close_of(self, session: dt.date) -> dt.datetime:
        return self._local(self.closes[self._index(session)])

    def is_open(self, now: dt.datetime) -> bool:
        at = bisect.bisect_right(self.opens, now) - 1
        return at >= 0 and now < self.closes[at] and self._pause(now) is None

    def next_open(self, now: dt.datetime) -> dt.datetime:
        """Return the first moment after now at which a session begins, or goes on after its break."""
        if (pause := self._pause(now)) is not None:
            return self._local(pause[1])
        at = bisect.bisect_right(self.opens, now)
        if at == len(self.opens):
            raise MarketError(f"the exchange calendar ends before {now:%Y-%m-%d}", remedy="update exchange-calendars")
        return self._local(self.opens[at])

    def last_closed(self, now: dt.datetime) -> dt.date:
        at = bisect.bisect_right(self.closes, now)
        if at == 0:
            raise MarketError(f"the exchange calendar begins on {self.sessions[0]}, after {now:%Y-%m-%d}")
        return self.sessions[at - 1]

    def last_open(self, now: dt.datetime) -> dt.date:
        """Return the last session that has begun."""
        at = bisect.bisect_right(self.opens, now)
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

    def on_or_after(self, day: dt.date) -> dt.date:
        """Return the first session that is not before a day. Raises MarketError where the calendar ends before it."""
        at = bisect.bisect_left(self.sessions, day)
        if at == len(self.sessions):
            raise MarketError(f"the exchange calendar ends before {day}", remedy="update exchange-calendars")
        return self.sessions[at]

    def _pause(self, now: dt.datetime) -> tuple[dt.datetime, dt.datetime] | None:
        at = bisect.bisect_right(self.pauses, now, key=lambda pause: pause[0]) - 1
        return self.pauses[at] if at >= 0 and now < self.pauses[at][1] else None

    @property
    def zone(self) -> dt.tzinfo:
        return zone_of(self.exchange)

    def _local(self, moment: dt.datetime) -> dt.datetime:
        return moment.astimezone(self.zone)

    def _index(self, session: dt.date) -> int:
        at = bisect.bisect_left(self.sessions, session)
        if at == len(self.sessions) or self.sessions[at] != session:
            raise MarketError(f"{session} is no session of {self.exchange}")
        return at


def exchange_hours(exchange: str = HOME) -> ExchangeHours:
    """Return the hours of an exchange, by the code of its row, since the day from which its calendar is recorded.

    Built once a process: the calendar library takes a second to import, and a calendar 0.1 to 7 s.
    """
    return _hours(exchange)


def hours_of(symbol: str) -> ExchangeHours:
    """Return the hours of a symbol's exchange."""
    return exchange_hours(exchange_code(symbol))


@cache
def _hours(exchange: str) -> ExchangeHours:
    row = EXCHANGES[exchange]
    calendar = import_arrowless("exchange_calendars").get_calendar(row.calendar, start=row.recorded_since)
    begun, ended = calendar.break_starts_nanos.tolist(), calendar.break_ends_nanos.tolist()
    return ExchangeHours(
        tuple(session.date() for session in calendar.sessions),
        tuple(map(_moment, calendar.opens_nanos.tolist())),
        tuple(map(_moment, calendar.closes_nanos.tolist())),
        exchange,
        tuple((_moment(start), _moment(end)) for start, end in zip(begun, ended, strict=True) if start > 0),
    )


def _moment(nanos: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(nanos / 1e9, dt.UTC)


class _UsualDay(NamedTuple):
    """The open and close of an exchange, and the days on which it may close earlier, as (month, first day, last
    day)."""

    open: dt.time
    close: dt.time
    may_differ: tuple[tuple[int, int, int], ...]


# Spares most processes the second that a calendar takes; the tests hold this against the whole calendar.
_USUAL: Mapping[str, _UsualDay] = {
    HOME: _UsualDay(dt.time(9, 30), dt.time(16), ((7, 2, 6), (11, 22, 30), (12, 23, 31)))
}


@lru_cache(maxsize=4096)
def usual_close(day: dt.date, exchange: str = HOME) -> dt.datetime:
    """Return a session's own close; of a day without a session, the close that it would have, or that of the session
    after it where the exchange has no usual close."""
    usual = _USUAL.get(exchange)
    if usual is None:
        hours = exchange_hours(exchange)
        return hours.close_of(hours.on_or_after(day))
    early = any(day.month == month and first <= day.day <= last for month, first, last in usual.may_differ)
    if early and exchange_hours(exchange).is_session(day):
        return exchange_hours(exchange).close_of(day)
    return dt.datetime.combine(day, usual.close, zone_of(exchange))


@lru_cache(maxsize=4096)
def usual_open(day: dt.date, exchange: str = HOME) -> dt.datetime:
    """Return a session's open; of a day without a session as `usual_close` does."""
    usual = _USUAL.get(exchange)
    if usual is not None:
        return dt.datetime.combine(day, usual.open, zone_of(exchange))
    hours = exchange_hours(exchange)
    return hours.open_of(hours.on_or_after(day))


def decision_time(day: dt.date, exchange: str = HOME) -> dt.datetime:
    """Return when a replay decides on a day, some minutes before the session's own close: in New York at 15:55, and at
    12:55 where it closes at 13:00; of pairs, which trade around the clock, at 23:55 UTC."""
    close = usual_close(day, exchange) if exchange in _USUAL else exchange_hours(exchange).close_of(day)
    return close - dt.timedelta(minutes=EXCHANGES[exchange].decides)


class ReplayClock:
    """Clock that stands still on one session of an exchange: some minutes before its own close, or at its open.

    By the former that day's bar counts as known: the last minutes stand for the close. Nothing later is. At the open
    the newest bar is that of the session before. Of any other exchange a bar is known from its own close on.
    """

    def __init__(self, day: dt.date, *, at_open: bool = False, exchange: str = HOME) -> None:
        self.day, self.exchange = day, exchange
        hours = exchange_hours(exchange) if at_open else None
        self._now = hours.open_of(day) if hours else decision_time(day, exchange)
        self._session = hours.until(day, 2)[0] if hours else day

    def now(self) -> dt.datetime:
        return self._now

    def is_open(self, exchange: str | None = None) -> bool:
        return exchange_hours(exchange or self.exchange).is_open(self._now)

    def next_open(self, exchange: str | None = None) -> dt.datetime:
        return exchange_hours(exchange or self.exchange).next_open(self._now)

    def session(self, exchange: str | None = None) -> dt.date:
        if exchange in (None, self.exchange):
            return self._session
        return exchange_hours(exchange or self.exchange).last_closed(self._now)


class LiveClock:
    """Clock of real time. A session's bar is known from its close on, not while it is being made."""

    day = None

    def __init__(self, exchange: str = HOME) -> None:
        self.exchange = exchange

    def now(self) -> dt.datetime:
        return dt.datetime.now(zone_of(self.exchange))

    def is_open(self, exchange: str | None = None) -> bool:
        return exchange_hours(exchange or self.exchange).is_open(self.now())

    def next_open(self, exchange: str | None = None) -> dt.datetime:
        return exchange_hours(exchange or self.exchange).next_open(self.now())

    def session(self, exchange: str | None = None) -> dt.date:
        return exchange_hours(exchange or self.exchange).last_closed(self.now())
