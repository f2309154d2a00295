"""Moments in words: since when and until when a question asks, by the calendar and clock of the desk's exchange.

A span is read as two texts, `since` and `until`, and becomes times where the question is answered. A text is what
`tasks.reading.changes.since_of` reads, or one of the words below. What names a moment and is none of these is left in
the text, and `UNREAD` finds it there: a question about another time than was asked for would be a wrong answer.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

NUMBERS = {
    word: at
    for at, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december")  # fmt: skip
_UNITS = {"minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w"}
_WORDS = {
    "today": "today", "this morning": "today", "this afternoon": "today", "yesterday": "yesterday",
    "last night": "close", "overnight": "close", "last close": "close", "the close": "close",
    "the last close": "close", "this week": "week", "last week": "lastweek", "this month": "month",
    "last month": "lastmonth", "this year": "year", "last year": "lastyear",
    "this evening": "today", "midnight": "today", "noon": "12:00", "the day before yesterday": "daybefore",
}  # fmt: skip
EVER = "ever"
_GOING_ON = ("today", "close", "week", "month", "year")  # they end now
_DAY = r"\d{4}-\d{2}-\d{2}(?:t\d{2}:\d{2}(?::\d{2})?(?:z|[+-]\d{2}:\d{2})?)?(?!\S*\d)"
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS)
_MONTH_DAY = (
    rf"(?:{_MONTH})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTH})(?:\s+\d{{4}})?"
)
_CLOCK = r"\d{1,2}:\d{2}(?:\s*[ap]m)?|\d{1,2}\s*[ap]m"
_AGO = rf"(?:\d{{1,5}}|an?|{'|'.join(NUMBERS)})\s+(?:{'|'.join(_UNITS)})s?\s+ago"
_NAMED = (
    rf"{_DAY}|{_MONTH_DAY}|{_CLOCK}|{_AGO}|"
    + "|".join(sorted((re.escape(word).replace(r"\ ", r"\s+") for word in _WORDS), key=len, reverse=True))
    + "|"
    + "|".join(rf"(?:last\s+)?{day}" for day in WEEKDAYS)
)
_BETWEEN = re.compile(rf"\b(?:between|from)\s+({_NAMED})\s+(?:and|to|until|till)\s+({_NAMED})(?!\w)")
_SINCE = re.compile(rf"\b(?:ever since|since|after|starting)\s+(\d{{1,5}}[mhdw]|{_NAMED})(?!\w)(?:\s+on(?:wards)?)?")
_BEFORE = re.compile(rf"\b(?:before|until|till|up to)\s+({_NAMED})(?!\w)")
_AT = re.compile(rf"\b(?:(?:on|of|for|from|in|during|over)\s+)?(?:(?:the\s+)?)({_NAMED})(?!\w)(?:'s)?")
_SPAN = re.compile(
    rf"\b(?:(?:in|over|during|for|of|within)\s+)?(?:the\s+)?(?:last|past|previous)\s+"
    rf"(?:(\d{{1,5}}|couple\s+of|{'|'.join(NUMBERS)})\s+)?({'|'.join(_UNITS)})s?\b"
)
_SPAN_SHORT = re.compile(r"\b(?:(?:in|over|during|for|of|within)\s+)?(?:the\s+)?(?:last|past)\s+(\d{1,5})\s?([mhdw])\b")
_EVER = re.compile(r"\b(?:ever|so far|in total|in all|altogether|all[ -]time|since (?:the )?(?:start|beginning))\b")
_NOW = re.compile(r"\b(?:right now|now|currently|at the moment|at present)\b")
# What names a time and was not read.
UNREAD = re.compile(
    rf"\b(?:since|until|till|before|after|between|during|ago|tomorrow|tonight|earlier|later|recently|lately|"
    rf"(?:next|last|past|previous|coming|first|second|third|fourth)\s+"
    rf"(?:few\s+|several\s+|\w+\s+)?(?:minute|hour|day|week|month|quarter|year|session|trading|weekend|{'|'.join(WEEKDAYS)})s?|"
    rf"{'|'.join(WEEKDAYS)}|(?:in|during|of)\s+(?:{'|'.join(_MONTHS)})|(?:in|during|of)\s+(?:19|20)\d\d|weekend|"
    rf"today|yesterday|noon|midnight|mornings?|afternoons?|evenings?|overnight|\d{{1,2}}:\d{{2}}|"
    rf"(?:at|by|from|to) (?:the )?(?:open|opening|bell|market open)|"
    rf"quarter|\d{{1,2}}/\d{{1,2}}(?:/\d+)?|daily|weekly|monthly|hourly|(?:by|per|each|every)\s+"
    rf"(?:minute|hour|day|week|month|quarter|year|session))\b"
)


@dataclass(frozen=True, slots=True)
class Span:
    """since, until: texts, None where nothing bounds it; rest: the text without its moments."""

    since: str | None
    until: str | None
    rest: str


def span_of(text: str) -> Span:
    """Read the moments of a text in small letters. A bare day or week is all of it."""
    if (found := _BETWEEN.search(text)) is not None:
        return Span(_token(found[1]), f"{_token(found[2])}<", _cut(text, found))
    rest, since, until = text, None, None
    if (found := _SPAN_SHORT.search(rest)) is not None:
        since, rest = f"{found[1]}{found[2]}", _cut(rest, found)
    elif (found := _SPAN.search(rest)) is not None and not _is_calendar(found):
        count = found[1] or "one"
        number = 2 if count.startswith("couple") else int(count) if count.isdigit() else NUMBERS[count]
        since, rest = f"{number}{_UNITS[found[2]]}", _cut(rest, found)
    elif (found := _SINCE.search(rest)) is not None:
        token = found[1] if re.fullmatch(r"\d{1,5}[mhdw]", found[1]) else _token(found[1])
        since, rest = "close" if token == "yesterday" else token, _cut(rest, found)
    elif (found := _EVER.search(rest)) is not None:
        since, rest = EVER, _cut(rest, found)
    if (found := _BEFORE.search(rest)) is not None:
        until, rest = _token(found[1]), _cut(rest, found)
        if since is None and (found := _AT.search(rest)) is not None and _token(found[1]) in _GOING_ON:
            since, rest = _token(found[1]), _cut(rest, found)
    if since is None and until is None and (found := _AT.search(rest)) is not None:
        since, rest = _token(found[1]), _cut(rest, found)
        until = None if since in _GOING_ON else f"{since}<"
        if re.fullmatch(r"\d+[dw]", since):
            since, until = f"@{since}", f"@{since}<"
        elif re.fullmatch(r"\d+[mh]", since):
            until = None
    return Span(since, until, _NOW.sub(" ", rest))


def _is_calendar(found: re.Match[str]) -> bool:
    return found[1] is None and " ".join(found[0].split()).endswith(("last week", "previous week"))


def _cut(text: str, found: re.Match[str]) -> str:
    return f"{text[: found.start()]} {text[found.end() :]}"


def _token(text: str) -> str:
    word = " ".join(text.split())
    if word in _WORDS:
        return _WORDS[word]
    if (day := word.removeprefix("last ")) in WEEKDAYS:
        return day
    if (found := re.fullmatch(rf"(\w+) ({'|'.join(_UNITS)})s? ago", word)) is not None:
        count = 1 if found[1] in ("a", "an") else int(found[1]) if found[1].isdigit() else NUMBERS[found[1]]
        return f"{count}{_UNITS[found[2]]}"
    return word.upper() if re.match(r"\d{4}-", word) else word


def bounds(
    token: str,
    now: dt.datetime,
    zone: ZoneInfo,
    last_close: Callable[[], dt.datetime],
    begun: dt.datetime | None = None,
) -> tuple[dt.datetime, dt.datetime] | None:
    """Return when what a token names begins and ends; None for a token that `since_of` reads. begun: what a clock
    comes after, as the first one; without it a clock is the last one that passed."""
    midnight = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)

    def days(begin: dt.date, end: dt.date) -> tuple[dt.datetime, dt.datetime]:
        return tuple(dt.datetime(one.year, one.month, one.day, tzinfo=zone) for one in (begin, end))  # type: ignore[return-value]

    today, one = midnight.date(), dt.timedelta(days=1)
    monday, first = today - one * today.weekday(), today.replace(day=1)
    if token == EVER:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC), now
    if token == "close":
        return last_close(), now
    named: dict[str, tuple[dt.date, dt.date]] = {
        "today": (today, today + one), "yesterday": (today - one, today), "daybefore": (today - 2 * one, today - one),
        "week": (monday, monday + 7 * one), "lastweek": (monday - 7 * one, monday),
        "month": (first, first + 31 * one), "lastmonth": ((first - one).replace(day=1), first),
        "year": (today.replace(month=1, day=1), today + one),
        "lastyear": (today.replace(year=today.year - 1, month=1, day=1), today.replace(month=1, day=1)),
    }  # fmt: skip
    if token in named:
        return days(*named[token])
    if token in WEEKDAYS:
        day = today - one * ((today.weekday() - WEEKDAYS.index(token)) % 7)
        return days(day, day + one)
    if (clock := _clock(token)) is not None:
        at = midnight.replace(hour=clock[0], minute=clock[1])
        if begun is not None:
            at = begun.astimezone(zone).replace(hour=clock[0], minute=clock[1], second=0, microsecond=0)
            at = at if at >= begun else at + one
        elif at > now:
            at -= one
        return at, at + dt.timedelta(minutes=1)
    if (found := re.fullmatch(r"@(\d{1,4})([dw])", token)) is not None:
        day = today - int(found[1]) * (one if found[2] == "d" else 7 * one)
        return days(day, day + one)
    at_day = _calendar_day(token, today)
    return days(at_day, at_day + one) if at_day is not None else None


def is_clock(token: str) -> bool:
    return _clock(token) is not None


def _clock(token: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d{1,2})(?::(\d{2}))?\s*([ap]m)?", token)
    if found is None or (found[2] is None and found[3] is None):
        return None
    hour, minute = int(found[1]), int(found[2] or 0)
    if found[3]:
        hour = hour % 12 + (12 if found[3] == "pm" else 0)
    return (hour, minute) if hour < 24 and minute < 60 else None


def _calendar_day(token: str, today: dt.date) -> dt.date | None:
    """Return the day of 2026-11-27, Nov 27, 27th of November; without a year the last one."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", token):
        try:
            return dt.date.fromisoformat(token)
        except ValueError:
            return None
    parts = re.findall(r"[a-z]+|\d+", token)
    months = [at for at, name in enumerate(_MONTHS, 1) for part in parts if name.startswith(part) and len(part) >= 3]
    numbers = [int(part) for part in parts if part.isdigit()]
    if len(months) != 1 or not numbers:
        return None
    year = next((number for number in numbers if number > 31), None)
    try:
        found = dt.date(year or today.year, months[0], next(number for number in numbers if number <= 31))
        return found if year is not None or found <= today else found.replace(year=found.year - 1)
    except (ValueError, StopIteration):
        return None
