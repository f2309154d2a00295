"""The texts of the settings of notifications: channels with their URLs, and what each of them gets and when."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from zoneinfo import ZoneInfo

from chordesk.models.notifications.kinds import NoticeKind
from chordesk.models.notifications.quiet import QuietHours

T = TypeVar("T")

ALL, OFF = "all", "off"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9.+-]*://\S+")
_FORM = "write NAME=URL, such as phone=ntfy://my-topic"


@dataclass(frozen=True, slots=True)
class ByChannel(Generic[T]):
    """A value for each channel: its own, or that of all others."""

    others: T
    own: Mapping[str, T] = field(default_factory=dict)

    def of(self, channel: str) -> T:
        return self.own.get(channel, self.others)


def channel_urls(text: str) -> dict[str, str]:
    """Return the apprise URLs of channels by name, from NAME=URL separated by spaces or line ends. A line that begins
    with # is a comment. Raises ValueError, which repeats no URL: any part of one may be a secret."""
    entries = [one for line in text.splitlines() if not line.lstrip().startswith("#") for one in line.split()]
    found: dict[str, str] = {}
    for place, entry in enumerate(entries, 1):
        name, _, url = entry.partition("=")
        if "://" in name or not _URL.fullmatch(url):
            raise ValueError(f"entry {place} is no channel: {_FORM}, without a space in it")
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is no name of a channel: write small letters, digits, - and _")
        if name in found:
            raise ValueError(f"the channel {name} is there twice: give each a name of its own")
        found[name] = url
    if not found:
        raise ValueError(f"there is no channel in it: {_FORM}")
    return found


def kinds_by_channel(text: str) -> ByChannel[frozenset[NoticeKind]]:
    """Return the kinds that each channel gets, from `KIND,KIND` for all channels and `CHANNEL=KIND,KIND`, separated by
    ;. Raises ValueError."""
    return _by_channel(text, frozenset(NoticeKind), _kinds)


def quiet_by_channel(text: str) -> ByChannel[QuietHours | None]:
    """Return the quiet hours of each channel, from `HH:MM-HH:MM` for all channels and `CHANNEL=HH:MM-HH:MM`, separated
    by ;. Raises ValueError."""
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
    """Return the name of a time zone. Raises ValueError."""
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError("is no time zone: write a name such as Europe/Berlin, America/New_York or UTC") from None
    return text


def _kinds(value: str) -> frozenset[NoticeKind]:
    if value == ALL:
        return frozenset(NoticeKind)
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in list(NoticeKind):
            raise ValueError(f"{name!r} is no kind: write all, or some of {', '.join(NoticeKind)}")
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
