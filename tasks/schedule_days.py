"""The days of an entry of the schedule, as text: every session, some weekdays, the first or last session of each week
or month, or one date. A day on which the exchange is closed is none of them."""

from __future__ import annotations

import datetime as dt
import re

from chordesk.models.errors import UsageError
from chordesk.models.exchanges import shown_exchange
from chordesk.tools.market.clock import ExchangeHours

EVERY = "sessions"
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ENDS = ("week-first", "week-last", "month-first", "month-last")
DAYS_REMEDY = (
    f"write {EVERY}, weekdays such as mon,wed, {', '.join(_ENDS)}, or a date such as 2027-01-15: each is a session"
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
LOOKS_BACK, LOOKS_AHEAD = (
    60,
    400,
)  # days; each weekday on which an exchange trades is in the former, each end the latter


def checked_days(text: str, hours: ExchangeHours, today: dt.date) -> str:
    """Return the days in their one spelling. Raises UsageError for what is none of them, a weekday on which the
    exchange never trades, and a date that has passed or on which it is closed."""
    given = text.strip().lower()
    if given in (EVERY, *_ENDS):
        return given
    if _DATE.fullmatch(given):
        _require_date(given, hours, today)
        return given
    named = {part.strip() for part in given.split(",")}
    if unknown := sorted(named - {*WEEKDAYS}):
        raise UsageError(f"{unknown[0]!r} of the days {text!r} is no day", remedy=DAYS_REMEDY)
    traded = {day.weekday() for day in hours.between(today - dt.timedelta(days=LOOKS_BACK), today)}
    for number, name in enumerate(WEEKDAYS):
        if name in named and number not in traded:
            reason = f"{shown_exchange(hours.exchange)} has no session on a {_NAMES[number]}"
            raise UsageError(reason, remedy=DAYS_REMEDY)
    return ",".join(name for name in WEEKDAYS if name in named)


def _require_date(text: str, hours: ExchangeHours, today: dt.date) -> None:
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text} is no date", remedy=DAYS_REMEDY) from None
    if day < today:
        raise UsageError(f"{text} has passed", remedy=f"today is {today}: give a later session")
    if day > hours.sessions[-1]:
        raise UsageError(f"{text} is after {hours.sessions[-1]}, the end of the calendar", remedy="give an earlier day")
    if not hours.is_session(day):
        reason = f"{shown_exchange(hours.exchange)} is closed on {_NAMES[day.weekday()]}, {text}"
        raise UsageError(reason, remedy=f"the next session is {hours.on_or_after(day)}")


def is_due(text: str, hours: ExchangeHours, session: dt.date) -> bool:
    """Return whether a session is one of the days."""
    if text == EVERY:
        return True
    if text not in _ENDS:
        return text == session.isoformat() or WEEKDAYS[session.weekday()] in text.split(",")
    period, _, end = text.partition("-")
    first, last = _week(session) if period == "week" else _month(session)
    day = dt.timedelta(days=1)
    return not (hours.between(first, session - day) if end == "first" else hours.between(session + day, last))


def shown_days(text: str) -> str:
    """Return the days as a sentence has them: on each session, on the first session of each week, on 2027-01-15."""
    if text == EVERY:
        return "on each session"
    if text in _ENDS:
        period, _, end = text.partition("-")
        return f"on the {end} session of each {period}"
    return f"on {text}"


def _week(day: dt.date) -> tuple[dt.date, dt.date]:
    monday = day - dt.timedelta(days=day.weekday())
    return monday, monday + dt.timedelta(days=6)


def _month(day: dt.date) -> tuple[dt.date, dt.date]:
    first = day.replace(day=1)
    return first, (first + dt.timedelta(days=32)).replace(day=1) - dt.timedelta(days=1)


def first_due(text: str, hours: ExchangeHours, day: dt.date) -> dt.date | None:
    """Return the first session of the days that is not before a day; None of a date that is."""
    until = day + dt.timedelta(days=LOOKS_AHEAD)
    if _DATE.fullmatch(text):
        day, until = (given, given) if (given := dt.date.fromisoformat(text)) >= day else (day, day - dt.timedelta(1))
    return next((one for one in hours.between(day, until) if is_due(text, hours, one)), None)
