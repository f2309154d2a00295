"""Notifications of people: kinds and states, quiet hours, and the texts of their settings."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar
from zoneinfo import ZoneInfo

from chordesk.models.kinds import OpenKind


class NoticeKind(OpenKind, member="notice_kinds"):
    """What happened; features have more. Each channel gets all of them, or those that DESK_NOTIFY_KINDS names for
    it."""

    ORDER_WAITING = "order_waiting"  # for a person
    REQUEST_WAITING = "request_waiting"  # a model's, in the middle of a turn, for a person
    HALT = "halt"  # an account may not trade, or may only give exposure back
    RESUME = "resume"
    ORDER_UNKNOWN = "order_unknown"  # sent, without an answer of the broker
    ORDER_REJECTED = "order_rejected"
    FILL = "fill"
    PLAN_REVIEW = "plan_review"  # the review date of a position's plan has come
    RUN_FINISHED = "run_finished"  # done, or stopped by a person
    RUN_PARTIAL = "run_partial"
    RUN_FAILED = "run_failed"
    WORKER_LOST = "worker_lost"
    MODEL_PARKED = "model_parked"
    ROGUE_CALL = "rogue_call"  # a model called a tool that would act, and that no turn has
    BUDGET_REACHED = "budget_reached"
    FORGED = "forged"  # messages that the desk did not sign came from its Redis
    BACKUP_FAILED = "backup_failed"  # the weekly trial could not restore a backup
    ROOM = "room"  # little is left of a host's space, inodes, memory or open files; or there is room again
    PROCESS = "process"  # of the desk: frozen, dead or unreachable; or it lives again


# They pass through quiet hours and count toward no cap.
URGENT = frozenset({NoticeKind.HALT, NoticeKind.ORDER_UNKNOWN})
# They are sent at once, each in a message of its own, and retried for as long as their channel is set.
ALONE = frozenset({NoticeKind.HALT})
# The kind of a message in place of several that were held back.
SUMMARY = "summary"


class _Every(frozenset[NoticeKind]):
    """All kinds, those too that a feature brought which is gone since."""

    def __contains__(self, kind: object) -> bool:
        return True


EVERY = _Every(NoticeKind)


class NotificationState(StrEnum):
    """The states of a message to one channel."""

    WAITING = "waiting"  # for the end of its window, of quiet hours, of a full hour, or for its next attempt
    SENDING = "sending"  # written before the request; what a process leaves so when it dies is sent again
    SENT = "sent"
    MERGED = "merged"  # into a summary, which `into` names
    GIVEN_UP = "given_up"


NOTIFICATION_OPEN = frozenset({NotificationState.WAITING, NotificationState.SENDING})


_QUIET_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From `begin` up to `end`, on the next day where that is not later."""

    begin: dt.time
    end: dt.time

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        """Return the hours of HH:MM-HH:MM. Raises ValueError."""
        found = _QUIET_HOURS.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} are no hours: write HH:MM-HH:MM, such as 22:00-07:00, or off")
        hours = [int(part) for part in found.groups()]
        begin, end = dt.time(hours[0], hours[1]), dt.time(hours[2], hours[3])
        if begin == end:
            raise ValueError(f"{text!r} would be the whole day: leave the channel out of DESK_NOTIFY_KINDS instead")
        return cls(begin, end)

    def until(self, now: dt.datetime, zone: ZoneInfo) -> dt.datetime | None:
        """Return when the quiet hours end in which `now` is, in UTC; None outside of them. Each night is one interval
        between two moments, so an hour that the clock repeats is quiet once and not again. A time that the clock leaves
        out counts as that much after the last one before the gap (PEP 495, fold=0)."""
        today = now.astimezone(zone).date()
        for day in (today - _DAY, today):
            last = day if self.end > self.begin else day + _DAY
            begin, end = _moment(day, self.begin, zone), _moment(last, self.end, zone)
            if begin <= now < end:
                return end
        return None

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"


def _moment(day: dt.date, time: dt.time, zone: ZoneInfo) -> dt.datetime:
    return dt.datetime.combine(day, time, zone).astimezone(dt.UTC)


T = TypeVar("T")

ALL, OFF = "all", "off"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9.+-]*://\S+")
_CHANNEL_FORM = "write NAME=URL, such as phone=ntfy://my-topic"


@dataclass(frozen=True, slots=True)
class ByChannel(Generic[T]):
    """A value for each channel: its own, or that of all others."""

    others: T
    own: Mapping[str, T] = field(default_factory=dict)

    def of(self, channel: str) -> T:
        return self.own.get(channel, self.others)


def channel_urls(text: str) -> dict[str, str]:
    """From NAME=URL; a line that begins with # is a comment. Raises ValueError, which repeats no URL: it may be
    secret."""
    entries = [one for line in text.splitlines() if not line.lstrip().startswith("#") for one in line.split()]
    found: dict[str, str] = {}
    for place, entry in enumerate(entries, 1):
        name, _, url = entry.partition("=")
        if "://" in name or not _URL.fullmatch(url):
            raise ValueError(f"entry {place} is no channel: {_CHANNEL_FORM}, without a space in it")
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is no name of a channel: write small letters, digits, - and _")
        if name in found:
            raise ValueError(f"the channel {name} is there twice: give each a name of its own")
        found[name] = url
    if not found:
        raise ValueError(f"there is no channel in it: {_CHANNEL_FORM}")
    return found


def kinds_by_channel(text: str) -> ByChannel[frozenset[NoticeKind]]:
    """From `KIND,KIND` for all channels and `CHANNEL=KIND,KIND`, separated by ;. Raises ValueError."""
    return _by_channel(text, EVERY, _kinds)


def quiet_by_channel(text: str) -> ByChannel[QuietHours | None]:
    """From `HH:MM-HH:MM` for all channels and `CHANNEL=HH:MM-HH:MM`, separated by ;. Raises ValueError."""
    return _by_channel(text, None, lambda value: None if value == OFF else QuietHours.parse(value))


def readable_kinds(text: str) -> str:
    kinds_by_channel(text)
    return text


def readable_quiet(text: str) -> str:
    quiet_by_channel(text)
    return text


def readable_channels(text: str) -> str:
    channel_urls(text)
    return text


def readable_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError("is no time zone: write a name such as Europe/Berlin, America/New_York or UTC") from None
    return text


def _kinds(value: str) -> frozenset[NoticeKind]:
    if value == ALL:
        return EVERY
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in (known := NoticeKind.known()):
            raise ValueError(f"{name!r} is no kind: write all, or some of {', '.join(known)}")
    return frozenset(NoticeKind(name) for name in names)


def _by_channel(text: str, others: T, read: Callable[[str], T]) -> ByChannel[T]:
    own: dict[str, T] = {}
    general = False
    for part in filter(None, (part.strip() for part in text.split(";"))):
        channel, named, value = (one.strip() for one in part.partition("="))
        if not named:
            if general:
                raise ValueError(f"{part!r} is a second one for all channels: write CHANNEL={part}")
            others, general = read(channel), True
            continue
        if not NAME.fullmatch(channel):
            raise ValueError(f"{channel!r} is no name of a channel: write small letters, digits, - and _")
        if channel in own:
            raise ValueError(f"the channel {channel} is there twice")
        own[channel] = read(value)
    return ByChannel(others, own)
