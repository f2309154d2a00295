"""A provider's limit: its kind, and the time that its body, text and headers name."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from email.utils import format_datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.providers.provider_limits import NO_CREDIT, RATE_LIMITED, USAGE_LIMIT, Limit, limit_of, reset_in
from chordesk.agents.providers.provider_limits import reset_in_headers as in_headers

NOW = dt.datetime(2026, 11, 28, 16, 0, tzinfo=dt.UTC)  # a Saturday
BERLIN = "2026-11-29T03:00"


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Rate limit reached. Please try again in 11.5s. Visit us", 11.5),
        ("try again in 28ms", 0.028),
        ("try again in 1 hour and 2 minutes", 3720.0),
        ("try again in 3 days 2 hours 5 minutes", 266_700.0),
        ("Your quota will reset after 18h31m10s.", 66_670.0),
        ("try again later", None),
        ("or try again at Nov 30th, 2026 3:05 PM.", "2026-11-30T15:05"),
        ("try again at 15:05", "2026-11-29T15:05"),  # the next day's
        ("try again at 16:05.", "2026-11-28T16:05"),
        ("try again at 3:59 PM", 0.0),  # seconds are not told: it has just passed
        ("try again at Nov 28th, 2026 2:00 PM.", 0.0),
        ("You've hit your limit \u00b7 resets 4am (Europe/Berlin)", BERLIN),
        ("resets Nov 29 at 4am (Europe/Berlin)", BERLIN),
        ("resets Monday at 9am (America/New_York)", "2026-11-30T14:00"),
        ("resets Jan 2 at 3pm UTC", "2027-01-02T15:00"),
        ("You will regain access on 2026-12-01 at 00:00 UTC.", "2026-12-01T00:00"),
        ("The limit resets at 2026-11-30T15:05:00+02:00", "2026-11-30T13:05"),
        ("try again at 15:05 CET", "2026-11-29T14:05"),
        ("try again at 4am (Etc/GMT-1)", BERLIN),
        ("try again at 4pm (America/Port-au-Prince)", "2026-11-28T21:00"),
        ("try again at 3:00 AM IST", None),  # of three countries
        ("try again at 4 a.m. AEST", None),
        ("available again at 4 am Berlin time", None),
        ("try again at 9:15 PM. SEE the plans", "2026-11-28T21:15"),
        ("try again at 9:15 PM local time", "2026-11-28T21:15"),
        ("usage resumes at 4am (Europe/Berlin)", BERLIN),
        ("Come back in 3 hours", 10_800.0),
        ("Try again later (in 3 hours)", 10_800.0),
        ("Try again in approximately 2 days 3 hours", 183_600.0),
        ("try again in half an hour", 1800.0),
        ("try again in an hour and a half", 5400.0),
        ("Try again in 1:30:00", 5400.0),
        ("try again in 1:30", None),  # hours and minutes, or minutes and seconds
        ("resets in 1 day, 2:30:00", 95_400.0),
        ("resets in two days", 172_800.0),
        ("try again in twenty-four hours", 86_400.0),
        ("try again in 1 hour 30", 5400.0),
        ("try again in 2 to 3 hours", 10_800.0),
        ("try again in 1,5 hours", 5400.0),
        ("try again in a few minutes", None),
        ("try again in 1 month", None),
        ("You can continue in 45 minutes", 2700.0),
        ("Retry-After: 120", 120.0),
        ("reset_at=1796000000", "2026-11-30T00:53:20"),
        ("try again at 04.00 CET", BERLIN),
        ("try again at 4.30pm", "2026-11-28T16:30"),
        ("try again at 17h30 UTC", "2026-11-28T17:30"),
        ("tomorrow at 9am PT", "2026-11-29T17:00"),
        ("try again on Dec 3 at 4:15 PM (America/New_York)", "2026-12-03T21:15"),
        ("resets next Monday at 9am UTC", "2026-11-30T09:00"),
        ("resets daily at 00:00 UTC", "2026-11-29T00:00"),
        ("next reset: 2026-11-29 00:00:00 UTC", "2026-11-29T00:00"),
        ("available again on 30.11.2026 15:05", "2026-11-30T15:05"),
        ("available again on 11/30/2026 at 15:05", "2026-11-30T15:05"),
        ("available again on 12/03/2026 at 15:05", None),  # of March or of December
        ("try again at 24:00 UTC", "2026-11-29T00:00"),
        ("try again at 15pm", None),
        ("try again at 25:00", None),
        ("resets 4am (Mars/Base)", None),  # a time of an unknown zone is not known
        ("Try again at Nov 31, 2026 3 PM", None),
    ],
)
def test_a_time_in_a_text(monkeypatch: pytest.MonkeyPatch, text: str, ends: str | float | None) -> None:
    """A time without a zone is the machine's."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    if isinstance(ends, str):
        ends = (dt.datetime.fromisoformat(ends).replace(tzinfo=dt.UTC) - NOW).total_seconds()
    assert reset_in(text, NOW) == (pytest.approx(ends) if ends is not None else None)


@given(
    st.integers(0, 20),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(0, 59),
    st.sampled_from(["long", "short", "clock"]),
)
def test_a_span_in_any_notation_is_its_seconds(days: int, hours: int, minutes: int, seconds: int, how: str) -> None:
    counts = dict(zip(("day", "hour", "minute", "second"), (days, hours, minutes, seconds), strict=True))
    parts = [(count, unit) for unit, count in counts.items() if count] or [(0, "second")]
    if how == "long":
        told = " ".join(f"{count} {unit}{'s' * (count != 1)}" for count, unit in parts)
    elif how == "short":
        told = "".join(f"{count}{unit[0]}" for count, unit in parts)
    else:  # as Python writes a timedelta
        told = str(dt.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert reset_in(f"You are out of messages. Try again in {told}.", NOW) == total
    assert in_headers({"retry-after": told}) == total


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Sydney")
FORMATS = ("%b %d, %Y %I:%M %p", "%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%A, %d %b %Y at %H:%M", "%H:%M on %B %d, %Y")


@given(st.integers(3, 200 * 24 * 60), st.sampled_from(FORMATS), st.sampled_from(ZONES))
def test_a_moment_in_any_notation_is_that_moment(ahead: int, how: str, zone: str) -> None:
    moment = (NOW + dt.timedelta(minutes=ahead)).astimezone(ZoneInfo(zone))
    found = reset_in(f"Limit reached. It resets at {moment.strftime(how)} ({zone})", NOW)
    assert found is not None
    # The hour that comes twice in autumn is the first one.
    assert found in (ahead * 60, ahead * 60 - 3600)


def test_a_time_has_just_passed_on_the_day_before_too() -> None:
    assert reset_in("resets 11:59pm (UTC)", dt.datetime(2026, 11, 28, 0, 0, 30, tzinfo=dt.UTC)) == 0.0


def test_a_time_of_the_machine_follows_its_zone_and_its_summer_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        march = dt.datetime(2026, 3, 28, 20, 0, tzinfo=dt.UTC)
        assert reset_in("try again at 4:00 AM", march) == 6 * 3600  # the hour from 2 to 3 is left out that night
        assert reset_in("try again at Mar 28th, 2026 10:30 PM", march) == 1.5 * 3600
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()


def _http(seconds: float) -> str:
    return format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "90"}, 90),
        ({"Retry-After": lambda: _http(3600)}, 3600),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 1),
        (
            {
                "x-ratelimit-remaining-requests": "9",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            360,
        ),
        ({"X-RateLimit-Reset": lambda: str((int(time.time()) + 7200) * 1000)}, 7200),
        (
            {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": lambda: str(int(time.time()) + 7200),
            },
            7200,
        ),
        (
            {
                "x-codex-primary-used-percent": "40",
                "x-codex-primary-reset-after-seconds": "60",
                "x-codex-secondary-used-percent": "100",
                "x-codex-secondary-reset-after-seconds": "400000",
                "retry-after": "1",
            },
            400_000,
        ),
        ({"retry-after": "PT1H30M"}, 5400),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-5"}, 0),
    ],
)
def test_a_time_in_headers(headers: dict[str, str | Callable[[], str]], seconds: float | None) -> None:
    """What depends on the clock is made when the test begins, not when it is collected."""
    found = in_headers({name: value if isinstance(value, str) else value() for name, value in headers.items()})
    assert found == (seconds if seconds is None or seconds < 3600 else pytest.approx(seconds, abs=900))


RESET = {"x-ratelimit-reset-requests": "5s"}
QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("status", "error", "headers", "found"),
    [
        (429, {"type": "usage_limit_reached", "resets_in_seconds": 7200}, {}, Limit(USAGE_LIMIT, 7200)),
        (
            429,
            {"type": "usage_limit_reached", "message": "The usage limit has been reached"},
            {},
            Limit(USAGE_LIMIT, None),
        ),
        (429, {"code": "insufficient_quota", "message": QUOTA}, RESET, Limit(NO_CREDIT, None)),
        (429, {"message": f"{QUOTA} Please retry in 34s"}, {}, Limit(USAGE_LIMIT, 34)),
        (429, {"message": QUOTA, "details": [{"retryDelay": "34s"}]}, {}, Limit(USAGE_LIMIT, 34)),
        (402, {"message": "Insufficient credits"}, {}, Limit(NO_CREDIT, None)),
        (429, {"type": "usage_not_included"}, {}, Limit(NO_CREDIT, None)),
        (
            429,
            {
                "message": "Rate limit exceeded: free-models-per-day",
                "metadata": {"headers": {"X-RateLimit-Reset": "60"}},
            },
            {},
            Limit(USAGE_LIMIT, 60),
        ),
        (429, {"type": "rate_limit_error", "message": "slow down"}, {"retry-after": "7"}, Limit(RATE_LIMITED, 7)),
        (400, {"message": "Your credit balance is too low to access the API"}, {}, Limit(NO_CREDIT, None)),
        (400, {"message": "the field quota is unknown"}, {}, None),
        (500, {"message": "limit of the pool"}, {}, None),
    ],
)
def test_what_passes_by_itself_and_what_does_not(
    status: int, error: dict[str, Any], headers: dict[str, str], found: Limit | None
) -> None:
    assert limit_of(status, str(error.get("message") or ""), {"error": error}, headers) == found
