"""A provider's limit, read from its answer: which kind it is, and how long it lasts.

Providers say it in the body, in the text, in a header, or nowhere. What is nearest to the refused call counts first:
the body, its text, the windows of a plan that are used up, and then headers that servers send with every answer.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from chordesk.models.answers import Failure

RATE_LIMITED = "rate_limited"  # so many requests or tokens in a short time
USAGE_LIMIT = "usage_limit"  # a plan's or a key's share of a window is used up
NO_CREDIT = "no_credit"  # nothing passes until a person pays or changes the plan
LIMITS = frozenset({RATE_LIMITED, USAGE_LIMIT})  # kinds that end by themselves

_BILLING = re.compile(
    r"(?i)insufficient[_ ](?:quota|credits?|balance|funds)|exceeded your current quota|credit balance is too low"
    r"|billing_(?:hard_limit|not_active)|billing hard limit|check your plan and billing|usage_not_included"
    r"|credits?[_ ]depleted|spend[_ ]limit|payment required|requires more credits|out of credits"
    r"|key limit exceeded \(total"
)
_PLAN = re.compile(
    r"(?i)usage[_ ]limit|usage limits|hit your (?:\w+ )?limit|(?:hour|daily|weekly|monthly|session|plan) limit"
    r"|per[- ](?:day|week|month)\b|quota|key limit exceeded"
)
# Answers of another status than 429 and 402 are limits only where they say so beyond doubt.
_SURE = re.compile(
    r"(?i)usage_limit_reached|usage limit has been reached|hit your (?:usage )?limit|claude ai usage limit"
    r"|reached your (?:specified )?\w* ?usage limits?|key limit exceeded|credit balance is too low|insufficient_quota"
    r"|billing_hard_limit|usage_not_included|insufficient credits"
)


class Limit(NamedTuple):
    kind: str
    reset_seconds: float | None  # None where the provider does not say


def limit_of(status: int, said: str, content: Any = None, headers: Mapping[str, str] | None = None) -> Limit | None:
    """Return the limit that an answer tells of, None for any other failure. status: 0 where it is not known. said:
    names and text of its error; content: its JSON.

    A bill that is not paid stops everything until a person acts, unless the body or the text names a time: headers name
    one whatever the reason is.
    """
    names = f"{said} {_names(content)}"
    if status not in (402, 429) and _SURE.search(names) is None:
        return None
    stated = reset_stated(said, content)
    reset = stated if stated is not None else reset_in_headers(headers or {})
    if status == 402 or _BILLING.search(names):
        return Limit(USAGE_LIMIT, stated) if stated is not None else Limit(NO_CREDIT, None)
    if _PLAN.search(names):
        return Limit(USAGE_LIMIT, reset)
    return Limit(RATE_LIMITED, reset) if status == 429 else None


# A limit of one model, as of tokens a day: other models of the account go on.
_OF_MODEL = re.compile(r"(?i)\blimit (?:reached )?for (?:model\b|gpt|o\d|claude|codex|gemini)|\bmodel: ")


def is_of_plan(failure: Failure) -> bool:
    """Return whether a limit is of the whole account, and not of one model."""
    return failure.kind == USAGE_LIMIT and _OF_MODEL.search(failure.message) is None


def reset_stated(said: str, content: Any = None) -> float | None:
    found = reset_in_body(content)
    return found if found is not None else reset_in(said)


# In a body.

_DEPTH = 6
_IN = (
    "resets_in_seconds", "reset_in_seconds", "resetsInSeconds", "retry_after_seconds", "retry_after", "retryAfter",
    "reset_after_seconds", "resets_in", "reset_in", "reset_after",
)  # fmt: skip
_AT = ("resets_at", "reset_at", "resetsAt", "resetAt", "reset_time", "resetTime", "reset")
_DELAYS = ("retryDelay", "retry_delay")  # Google's RetryInfo


def reset_in_body(content: Any) -> float | None:
    """Return the seconds that a JSON names. A span goes before a moment: it needs no clock to be right."""
    parts = list(_parts(content))
    for keys in (_IN, _DELAYS, _AT):
        for part in parts:
            for key in keys:
                if (seconds := _seconds_of(part.get(key))) is not None:
                    return seconds
    for part in parts:  # OpenRouter repeats the headers of the provider that it asked
        if isinstance(headers := part.get("headers"), Mapping):
            told = {str(name): str(value) for name, value in headers.items()}
            if (seconds := reset_in_headers(told)) is not None:
                return seconds
    return None


def _parts(content: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    if isinstance(content, Mapping):
        yield content
    if depth < _DEPTH and isinstance(content, Mapping | list):
        for one in list(content.values() if isinstance(content, Mapping) else content)[:50]:
            yield from _parts(one, depth + 1)


def _names(content: Any) -> str:
    found = [str(part.get(key)) for part in _parts(content) for key in ("type", "code", "message") if part.get(key)]
    return " ".join(found)[:2000]


# In headers.

_WINDOWS = ("primary", "secondary")
_RESETS = re.compile(
    r"(?:x-ratelimit-reset(?P<of>.*)|(?P<before>(?:x-|anthropic-)?ratelimit-.*)-reset|ratelimit-reset)$"
)


def reset_in_headers(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until the last of the used-up windows begins anew. Where none is said to be used up, until the
    first one does: the caller that is refused again waits longer."""
    told = {name.lower(): str(value) for name, value in headers.items()}
    if (seconds := _codex_reset(told)) is not None:
        return seconds
    if (after := _seconds_of(told.get("retry-after-ms"))) is not None:
        return after / 1000
    if (seconds := _seconds_of(told.get("retry-after"))) is not None:
        return seconds
    used_up, others = list[float](), list[float]()
    for name, value in told.items():
        match = _RESETS.fullmatch(name)
        seconds = _seconds_of(value) if match is not None else None
        if match is None or seconds is None:
            continue
        before, of = match["before"], match["of"] or ""
        left = told.get(f"{before}-remaining" if before else f"x-ratelimit-remaining{of}", "")
        spent = left.strip() in ("0", "0.0") or told.get(f"{before}-status") == "rejected"
        (used_up if spent else others).append(seconds)
    return max(used_up) if used_up else min(others, default=None)


def _codex_reset(told: Mapping[str, str]) -> float | None:
    found = []
    for window in _WINDOWS:
        used = _number(told.get(f"x-codex-{window}-used-percent"))
        if used is None or used < 100:
            continue
        at = _seconds_of(told.get(f"x-codex-{window}-reset-at"))
        after = _seconds_of(told.get(f"x-codex-{window}-reset-after-seconds"))
        if (seconds := after if after is not None else at) is not None:
            found.append(seconds)
    return max(found, default=None)


_EPOCH, _EPOCH_MS = 1e9, 1e11  # a number from here on is a moment, in seconds or in milliseconds


def _seconds_of(value: Any, now: dt.datetime | None = None) -> float | None:
    """Return the seconds of a span or until a moment: a number, "1m2.5s", an ISO or an HTTP date; 0 for the past."""
    present = now.timestamp() if now is not None else time.time()
    if value is None or isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    number = _number(value)
    if number is not None:
        if number >= _EPOCH:
            number = (number / 1000 if number >= _EPOCH_MS else number) - present
        return max(number, 0.0)
    text = str(value).strip()
    if _SPANS.fullmatch(text):
        return _span(text)
    if (iso := _ISO_SPAN.fullmatch(text)) is not None and any(iso.groups()):
        return sum(float(count or 0) * _SECONDS[unit] for count, unit in zip(iso.groups(), "dhms", strict=True))
    for read in (_from_iso, _from_http):
        try:
            return max(read(text) - present, 0.0)
        except (ValueError, TypeError, OverflowError):
            continue
    return None


def _from_iso(text: str) -> float:
    found = dt.datetime.fromisoformat(text)
    return (found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)).timestamp()


def _from_http(text: str) -> float:
    return parsedate_to_datetime(text).timestamp()


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


# In a text: "try again in 3 days 2 hours", "try again at Nov 30th, 2026 3:05 PM", "resets 4am (Europe/Berlin)".

_UNIT = r"(?:ms|milliseconds?|secs?|seconds?|s|mins?|minutes?|m|hrs?|hours?|h|days?|d|weeks?|w)"
_UNITS_IN_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TENS_IN_WORDS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90}
_IN_WORDS: Mapping[str, float] = {
    "a": 1, "an": 1, "half a": 0.5, "half an": 0.5, "quarter of an": 0.25, "a quarter of an": 0.25,
    "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15,
    **{word: number for number, word in enumerate(_UNITS_IN_WORDS, 1)},
    **_TENS_IN_WORDS,
    **{
        f"{tens} {word}": ten + number
        for tens, ten in _TENS_IN_WORDS.items() for number, word in enumerate(_UNITS_IN_WORDS, 1)
    },
}  # fmt: skip
_WORDS = "|".join(sorted((one.replace(" ", "[- ]") for one in _IN_WORDS), key=len, reverse=True))
_NUMBER = rf"(?:\d+(?:\.\d+|,\d\d?(?!\d))? ?|\b(?:{_WORDS})[- ])"
_HALF = r"(?: and a half\b)?"
_ONE_SPAN = rf"{_NUMBER}{_UNIT}(?![a-z]){_HALF}"
_SPAN = re.compile(rf"({_NUMBER})({_UNIT})(?![a-z])({_HALF})", re.IGNORECASE)
# Hours, minutes and seconds; of "1:30" it is not clear which they are.
_CLOCK = r"\b\d{1,3}:[0-5]\d:[0-5]\d(?:\.\d+)?"
_SPANS = re.compile(rf"(?:(?:{_ONE_SPAN}[ ,]*(?:and )?)+(?:{_CLOCK})?|{_CLOCK})", re.IGNORECASE)
_MINUTES_BEHIND = re.compile(r"(?:hours?|hrs?|h) (\d\d?)[.)!]?\s*\Z", re.IGNORECASE)  # 1 hour 30
_ISO_SPAN = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_MARK = (
    r"(?:again|retry(?:ing)?|resets?|resetting|renews?|resumes?|continue|refresh(?:es)?|regain access|come back"
    r"|available|restored|lifted|wait(?:ing)?|limited|blocked)"
)
_ABOUT = (
    r"(?:about |around |approximately |roughly |less than |under |up to |at least |~ ?|another "
    r"|\d+(?:\.\d+)? ?(?:-|\u2013|to|or) ?)"  # of "2 to 3 hours" the longer
)
_AFTER_SPAN = re.compile(
    rf"\b{_MARK}:? (?:again |later )?\(?(?:in|after|within|for)?:? ?{_ABOUT}?({_SPANS.pattern})",
    re.IGNORECASE,
)
_AFTER_MOMENT = re.compile(rf"\b{_MARK}\b|\buntil\b|(?=\b(?:tomorrow|today) (?:at )?\d)", re.IGNORECASE)
# A number alone: what a header of this name says, and a moment in seconds or milliseconds.
_RETRY_AFTER = re.compile(r"\bretry[- _]after[:=]? ?(\d{1,13}(?:\.\d+)?)(?![\w:.-]|\.\d)", re.IGNORECASE)
_RESETS_AT = re.compile(r"\bresets?(?:[ _]?(?:at|time|on))?[:=]? ?(\d{10}|\d{13})(?!\d)", re.IGNORECASE)
_AFTER_BAR = re.compile(r"limit reached\|(\d{10,13})\b", re.IGNORECASE)
_JUST_NOW = dt.timedelta(minutes=2)  # a time without seconds may have passed by this when it is read
_LONG_PAST = dt.timedelta(days=180)  # a day without a year is of the next one, where it is so long ago

_MONTH_NAMES, _DAY_NAMES = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec", "mon|tue|wed|thu|fri|sat|sun"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split("|"), 1)}
_DAYS = {name: number for number, name in enumerate(_DAY_NAMES.split("|"))}
_MONTH = rf"({_MONTH_NAMES})[a-z]*\.?"
_YEAR = r"(?:,? (\d{4})(?![\d:]))?"
_PIECES: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        "iso": r"(\d{4})-(\d\d)-(\d\d)(?:(?=T\d)|(?!\d))",
        "dotted": r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d)",
        "slashed": r"(\d{1,2})/(\d{1,2})/(\d{4})(?!\d)",
        "month_day": rf"{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?(?![\d:]){_YEAR}",
        "day_month": rf"(\d{{1,2}})(?:st|nd|rd|th)?\.? (?:of )?{_MONTH}{_YEAR}",
        "weekday": rf"({_DAY_NAMES})(?:day|sday|nesday|rsday|urday|s|rs)?\b",
        "named": r"(today|tomorrow)\b",
        "time": r"T?(\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?: ?([ap])\.?m\b\.?)?(?!\d)",
        "point": r"(\d{1,2})[.h](\d\d)(?: ?([ap])\.?m\b\.?| ?(?:uhr|h)\b|(?= ?\(?(?:[A-Z]{1,4}T?\b|[A-Z][a-z]+/)))",
        "hour": r"(\d{1,2})(?: ?([ap])\.?m\b\.?|h\b)",
        "word": r"(noon|midnight)\b",
        "offset": r"\(?(?:utc|gmt)? ?([+-])(\d{1,2}):?(\d\d)?\)?(?!\d)",
        "zone": r"\(?([A-Za-z]+/[A-Za-z_+\-0-9]+(?:/[A-Za-z_\-]+)?)\)?",
        "short": r"\(?(utc|gmt|z|[pmce][sd]?t|cest|cet|bst|jst|pacific|eastern|central|mountain)(?: time)?\b\)?",
    }.items()
}
# After a time: a zone that is none of these, as IST, which is of three countries. In capitals, as zones are.
_UNKNOWN_ZONE = re.compile(r"\s*\(?(?:[A-Z]{3,5}|(?!Local)[A-Z][a-z]+(?: [A-Z][a-z]+)? [Tt]ime)\b")
_SENTENCE_END = re.compile(r"(?<![ap]\.m)\.", re.IGNORECASE)
# "next Monday" is the coming one: who asks too early is refused once more, who waits too long has lost a week.
_BETWEEN = re.compile(
    r"(?:[\s,@:=\u00b7\u2219\u2022]"
    r"|\b(?:at|on|by|after|from|the|is|will|be|again|time|next|daily|every day|each day)\b)*",
    re.IGNORECASE,
)
_AMERICAN = {
    "p": "America/Los_Angeles", "m": "America/Denver", "c": "America/Chicago", "e": "America/New_York",
}  # fmt: skip
_SHORT = {"cet": "Europe/Paris", "cest": "Europe/Paris", "bst": "Europe/London", "jst": "Asia/Tokyo"}


def reset_in(text: str, now: dt.datetime | None = None) -> float | None:
    """Return the seconds until the time that a text names, None when it names none; 0 for a past one. A time without a
    zone is the machine's: the app-server writes its own so. now: with a zone."""
    if (found := _AFTER_SPAN.search(text)) is not None:
        behind = _MINUTES_BEHIND.search(text, found.start())
        return _span(found[1]) + (60.0 * int(behind[1]) if behind is not None and found.end() == behind.start(1) else 0)
    now = now or dt.datetime.now(dt.UTC)
    for number in (_AFTER_BAR, _RETRY_AFTER, _RESETS_AT):
        if (told := number.search(text)) is not None:
            return _seconds_of(told[1], now)
    for mark in _AFTER_MOMENT.finditer(text):
        try:
            moment = _moment(text[mark.end() : mark.end() + 80], now)
        except (ValueError, OverflowError, OSError):  # a 31st of June, an unknown zone
            continue
        if moment is not None:
            return max((moment - now).total_seconds(), 0.0)
    return None


def _span(text: str) -> float:
    clock = re.search(_CLOCK, text)
    total = 0.0
    if clock is not None:
        hours, minutes, seconds = clock[0].split(":")
        total = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    spans = _SPAN.findall(text[: clock.start()] if clock is not None else text)
    return total + sum((_count(number) + 0.5 * bool(half)) * _SECONDS[_unit(unit)] for number, unit, half in spans)


def _count(number: str) -> float:
    told = number.strip(" -").lower()
    return _IN_WORDS[told.replace("-", " ")] if not told[0].isdigit() else float(told.replace(",", "."))


def _unit(unit: str) -> str:
    return "ms" if unit.lower().startswith(("ms", "mil")) else unit[0].lower()


def _pieces(text: str) -> dict[str, re.Match[str]]:
    """Raises ValueError for a time of an unknown zone."""
    found: dict[str, re.Match[str]] = {}
    at = end = 0
    while True:
        between = _BETWEEN.match(text, at)
        at = between.end() if between is not None else at
        match = next(
            (
                (kind, one)
                for kind, pattern in _PIECES.items()
                if kind not in found and (one := pattern.match(text, at))
            ),
            None,
        )
        if match is None:
            break
        found[match[0]] = match[1]
        at = end = match[1].end()
    timed, zoned = found.keys() & {"time", "hour", "point"}, found.keys() & {"offset", "zone", "short"}
    if timed and not zoned and not _SENTENCE_END.match(text, end - 1) and _UNKNOWN_ZONE.match(text, at):
        raise ValueError("an unknown zone")
    return found


def _moment(text: str, now: dt.datetime) -> dt.datetime | None:
    found = _pieces(text)
    if not found.keys() - {"offset", "zone", "short"}:
        return None
    zone = _zone(found)
    here = now.astimezone(zone)  # without a zone the machine's
    clock, day = _clock(found), _day(found, here.date())
    if day is not None:
        return _at(day, clock or dt.time(), zone)
    if clock is None:
        return None
    if "weekday" in found:
        ahead = (_DAYS[found["weekday"][1].lower()] - here.weekday()) % 7
        moment = _at(here.date() + dt.timedelta(days=ahead), clock, zone)
        return moment if moment > now else _at(here.date() + dt.timedelta(days=ahead + 7), clock, zone)
    days = (_at(here.date() + dt.timedelta(days=ahead), clock, zone) for ahead in (-1, 0, 1))
    return next(day for day in days if day > now - _JUST_NOW)  # of before midnight where that has just passed


def _at(day: dt.date, clock: dt.time, zone: dt.tzinfo | None) -> dt.datetime:
    naive = dt.datetime.combine(day, clock)
    return naive.astimezone() if zone is None else naive.replace(tzinfo=zone)


def _clock(found: Mapping[str, re.Match[str]]) -> dt.time | None:
    if "point" in found:
        hour, minute, half = found["point"].groups()
        return dt.time(_hour(int(hour), half), int(minute))
    if "time" in found:
        hour, minute, second, half = found["time"].groups()
        return dt.time(_hour(int(hour), half), int(minute), int(second or 0))
    if "hour" in found:
        return dt.time(_hour(int(found["hour"][1]), found["hour"][2]))
    if "word" in found:
        return dt.time(12 if found["word"][1].lower() == "noon" else 0)
    return dt.time() if "weekday" in found else None


def _hour(hour: int, half: str | None) -> int:
    if half is not None and not 1 <= hour <= 12:
        raise ValueError(f"{hour} {half}m")
    return (
        hour % 24
        if half is None and hour == 24
        else hour
        if half is None
        else hour % 12 + (12 if half.lower() == "p" else 0)
    )


def _day(found: Mapping[str, re.Match[str]], today: dt.date) -> dt.date | None:
    if "dotted" in found:
        day, month, year = found["dotted"].groups()
        return dt.date(int(year), int(month), int(day))
    if "slashed" in found:
        return _slashed(*(int(part) for part in found["slashed"].groups()))
    if "iso" in found:
        return dt.date(*(int(part) for part in found["iso"].groups()))
    if "named" in found:
        return today + dt.timedelta(days=found["named"][1].lower() == "tomorrow")
    if "month_day" in found:
        month, day, year = found["month_day"].groups()
    elif "day_month" in found:
        day, month, year = found["day_month"].groups()
    else:
        return None
    stated = dt.date(int(year or today.year), _MONTHS[month.lower()], int(day))
    late = year is None and today - stated > _LONG_PAST
    return stated.replace(year=stated.year + 1) if late else stated


def _slashed(one: int, other: int, year: int) -> dt.date:
    """Raises ValueError where it is not clear which number is the month."""
    if one <= 12 and other <= 12 and one != other:
        raise ValueError("the day and the month may be either")
    return dt.date(year, min(one, other), max(one, other)) if max(one, other) > 12 else dt.date(year, one, one)


def _zone(found: Mapping[str, re.Match[str]]) -> dt.tzinfo | None:
    """Raises ValueError for an unknown zone: its time is not known then."""
    if "zone" in found:
        try:
            return ZoneInfo(found["zone"][1])
        except (OSError, KeyError) as error:
            raise ValueError(str(error)) from None
    if "offset" in found:
        sign, hours, minutes = found["offset"].groups()
        ahead = dt.timedelta(hours=int(hours), minutes=int(minutes or 0))
        return dt.timezone(-ahead if sign == "-" else ahead)
    if "short" not in found:
        return None
    name = found["short"][1].lower()
    if name in ("utc", "gmt", "z"):
        return dt.UTC
    return ZoneInfo(_SHORT.get(name) or _AMERICAN[name[0]])
