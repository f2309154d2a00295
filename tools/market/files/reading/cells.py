"""Cells of own files as figures: numbers, days, moments. A cell that cannot be read is None or not a number here, and a
problem where it stands."""

from __future__ import annotations

import datetime as dt
import math
import re
from zoneinfo import ZoneInfo

EMPTY = frozenset({"", "null", "none", "nan", "n/a", "na", "-"})
_DAY = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ]+(.*))?")
_PLAIN_DAY = re.compile(r"(\d{4})(\d{2})(\d{2})")
_SERIAL = re.compile(r"\d{5}(\.\d+)?")
_SECONDS = re.compile(r"\d{9,13}(\.\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_SERIAL_START = dt.date(1899, 12, 30)
# Beyond these years a day is a placeholder, and times near the calendar's ends cannot be brought to another zone.
_FIRST_YEAR, _LAST_YEAR = 1800, 2199
WRITE_DAYS = "write days as YYYY-MM-DD"


def is_empty(text: str) -> bool:
    return text.strip().lower() in EMPTY


def number_of(text: str) -> float | str:
    """Return the number that a cell states, not a number for an empty one; else why it cannot be read."""
    text = text.strip()
    if text.lower() in EMPTY:
        return math.nan
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    try:
        found = float(text)
    except ValueError:
        hint = "; write decimals with a point" if "," in text else ""
        return f"{text[:40]!r} is no number{hint}"
    return found if math.isfinite(found) else f"{text[:40]!r} is no finite number"


def day_of(text: str) -> dt.date | str:
    """Return the day that a cell names, whatever time of day it adds; else why it cannot be read."""
    text = text.strip()
    found = _DAY.fullmatch(text) or _PLAIN_DAY.fullmatch(text)
    if found is not None:
        try:
            day = dt.date(int(found[1]), int(found[2]), int(found[3]))
        except ValueError:
            return f"{text[:40]!r} is no day of the calendar"
        if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
            return f"{text[:40]!r} is no day of {_FIRST_YEAR} to {_LAST_YEAR}; leave out a row without a day"
        return day
    if _SERIAL.fullmatch(text):
        day = _SERIAL_START + dt.timedelta(days=int(float(text)))
        return f"{text} is a spreadsheet's day number (perhaps {day}); {WRITE_DAYS}"
    if _SECONDS.fullmatch(text):
        return f"{text} counts seconds or milliseconds; {WRITE_DAYS}"
    if is_empty(text):
        return f"no day; {WRITE_DAYS}"
    return f"{text[:40]!r} cannot be read as a day; {WRITE_DAYS}"


def moment_of(text: str, zone: ZoneInfo | None = None) -> dt.datetime | dt.date | str:
    """Return the moment that a cell names, timezone-aware, or the day alone where it names no time; else why it cannot
    be read. zone: of a time that names none; None refuses such a time."""
    text = text.strip()
    day = day_of(text)
    if isinstance(day, str):
        return day.replace(WRITE_DAYS, "write times as YYYY-MM-DD HH:MM:SS-04:00")
    if len(text) <= 10:
        return day
    try:
        moment = dt.datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        return f"{text[:40]!r} cannot be read as a time; write it as YYYY-MM-DD HH:MM:SS-04:00"
    if moment.tzinfo is not None:
        return moment
    if zone is None:
        return f"{text[:40]!r} has no zone; write it as {text[:19]}-04:00, or Z for UTC"
    return moment.replace(tzinfo=zone)
