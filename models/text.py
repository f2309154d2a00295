"""Text for people: times, spans, and what others wrote made harmless. Every room writes these in this one way."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

NEW_YORK = ZoneInfo("America/New_York")
SHORT_ID = 16  # characters of an id that are shown, and that commands take
_BEYOND_ASCII = re.compile(r"[^\n -~]")


def inert(text: str, *, instead: str = " ", kept: str = "\n") -> str:
    """Return untrusted text that cannot steer a terminal, hide or turn a line around. `instead` is in place of each
    character that is not seen (control, format, private, unassigned); any white space but the characters `kept` becomes
    a space."""
    return "".join(c if c.isprintable() or c in kept else " " if c.isspace() else instead for c in text)


def one_line(text: str | None, most: int | None = None, *, instead: str = " ", end: str = "…") -> str:
    """Return untrusted text as one inert line; `end` is where it was cut after `most` characters."""
    line = " ".join(inert(text or "", instead=instead).split())
    return line if most is None or len(line) <= most else f"{line[: most - len(end)].rstrip()}{end}"


def json_shown(json: str) -> str:
    """Return the same JSON with each character that is not seen, or steers a terminal, as an escape."""
    return _BEYOND_ASCII.sub(lambda found: found[0] if found[0].isprintable() else _escape(found[0]), json)


def _escape(letter: str) -> str:
    return re.sub("(....)", r"\\u\1", letter.encode("utf-16-be").hex())


def utc(at: dt.datetime) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"


def utc_seconds(at: dt.datetime) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


def new_york(at: dt.datetime) -> str:
    """Return a time of the market with its zone: 2010-08-12 16:00 EDT."""
    return f"{at.astimezone(NEW_YORK):%Y-%m-%d %H:%M %Z}"


_UNITS = ((86_400, "d", 172_800), (3600, "h", 3600), (60, "min", 60), (1, "s", 0))  # seconds of one, name, used from


def span(seconds: float) -> str:
    """Return a length of time in its two largest units: 9 d, 2 h 5 min, 3 min 20 s, 4.2 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    place = next(at for at, unit in enumerate(_UNITS) if round(seconds) >= unit[2])
    (size, name, _), (part, small, _) = _UNITS[place], _UNITS[min(place + 1, len(_UNITS) - 1)]
    first, second = divmod(round(seconds / part), size // part)
    return f"{first} {name} {second} {small}" if second else f"{first} {name}"
