"""Conditions of alerts, as a person writes them in a few words: price above 200, move down 5% since open, verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from chordesk.models.errors import UsageError
from chordesk.models.text import one_line

Looks = Literal["price", "bars", "news", "company", "rows"]  # where it looks
EACH = ("symbol", "watchlist", "holdings", "universe")
LONGEST = 200  # characters


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. said: its one spelling; given: what its words say, by name. threshold: what a look is measured
    against, None of a condition that fires for each thing that happens."""

    kind: Kind
    said: str
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def threshold(self) -> float | None:
        return self.given.get("threshold")

    @property
    def anew(self) -> bool:
        """Whether each session has a reference of its own."""
        return self.given.get("since") in ("close", "open")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of condition. usage: how it is written; on: the subjects that it may be on, the first by default; looks:
    where; read: its words after the name, raises ValueError; past: whether it can be tried over past sessions."""

    name: str
    usage: str
    purpose: str
    on: tuple[str, ...]
    looks: Looks
    read: Callable[[Sequence[str]], dict[str, Any]]
    past: bool = False


def _price(words: Sequence[str]) -> dict[str, Any]:
    side, level = words
    if side not in ("above", "below"):
        raise ValueError
    return {"side": side, "threshold": _number(level)}


def _move(words: Sequence[str]) -> dict[str, Any]:
    rest = list(words)
    side = rest.pop(0) if rest[0] in ("up", "down") else "either"
    share = (_fall if side == "down" else _percent)(rest.pop(0))
    since = "close"
    if rest:
        word, since = rest
        if word != "since" or since not in ("close", "open", "firing"):
            raise ValueError
    return {"side": side, "threshold": share, "since": since}


def _volume(words: Sequence[str]) -> dict[str, Any]:
    (times,) = words
    if not times.endswith("x"):
        raise ValueError
    return {"threshold": _number(times[:-1])}


def _headline(words: Sequence[str]) -> dict[str, Any]:
    return {"words": [word for word in words if word]}


def _count(words: Sequence[str]) -> dict[str, Any]:
    (text,) = words
    if not re.fullmatch(r"[0-9][0-9_]{0,14}", text) or (found := int(text)) == 0:
        raise ValueError
    return {"threshold": found}


def _share(words: Sequence[str]) -> dict[str, Any]:
    (text,) = words
    return {"threshold": _fall(text)}


def _nothing(words: Sequence[str]) -> dict[str, Any]:
    if words:
        raise ValueError
    return {}


def _number(text: str) -> float:
    found = float(text.replace("_", ""))
    if not (math.isfinite(found) and 0 < found < 1e9):
        raise ValueError
    return found


def _percent(text: str) -> float:
    if not text.endswith("%"):
        raise ValueError
    found = _number(text[:-1]) / 100
    if found > 10:
        raise ValueError
    return found


def _fall(text: str) -> float:
    """Raises UsageError for a fall that cannot be: nothing falls below nothing."""
    if (found := _percent(text)) >= 1:
        raise UsageError(f"nothing falls by {text}: it would never fire", remedy="write less than 100%, such as 10%")
    return found


KINDS: Mapping[str, Kind] = {
    one.name: one
    for one in (
        Kind("price", "price above|below PRICE", "crosses a price", ("symbol",), "price", _price, past=True),
        Kind(
            *("move", "move [up|down] SHARE% [since close|open|firing]", "moves by so much"),
            *(EACH, "price", _move),
            past=True,
        ),
        Kind("volume", "volume TIMESx", "has so many times its usual volume", EACH, "bars", _volume, past=True),
        Kind("headline", "headline [WORD ...]", "has a new headline, with one of the words", EACH, "news", _headline),
        Kind("earnings", "earnings DAYS", "reports in so many days", EACH, "company", _count, past=True),
        Kind("rating", "rating", "has its rating changed by a firm", EACH, "company", _nothing, past=True),
        Kind("verdict", "verdict", "has another rating of the desk", EACH[:3], "rows", _nothing),
        Kind("thesis", "thesis", "reaches what a thesis calls its end", EACH[:3], "rows", _nothing),
        Kind("review", "review", "a position's plan is to be reviewed", ("account",), "rows", _nothing),
        Kind("drawdown", "drawdown SHARE%", "equity falls so far below its highest", ("account",), "rows", _share),
        Kind("spend", "spend TOKENS", "so many tokens are spent in a UTC day", ("desk",), "rows", _count),
        Kind("waiting", "waiting MINUTES", "an order waits so long for a person", ("account",), "rows", _count),
        Kind("failed", "failed", "a run failed", ("desk",), "rows", _nothing),
    )
}


def condition_of(text: str) -> Condition:
    """Read a condition. Raises UsageError with how its kind is written."""
    words = text.replace(",", " ").split()
    shown = one_line(text, 60)
    if len(text) > LONGEST:
        raise UsageError(f"the condition {shown!r} is longer than {LONGEST} characters", remedy="use fewer words")
    name = words[0].lower() if words else ""
    if (kind := KINDS.get(name)) is None:
        usages = "; ".join(one.usage for one in KINDS.values())
        raise UsageError(f"{shown!r} is no condition", remedy=f"write one of: {usages}")
    if any(not word.isprintable() for word in words):
        raise UsageError(f"the condition {shown!r} has characters that cannot be seen", remedy=f"write {kind.usage}")
    try:
        given = kind.read([word.lower() for word in words[1:]])
    except (ValueError, IndexError):
        remedy = f"write {kind.usage}"
        if re.search("[0-9],[0-9]", text):
            remedy += ", and numbers without commas: 2000000 or 2_000_000"
        raise UsageError(f"{shown!r} lacks what it is measured by", remedy=remedy) from None
    return Condition(kind, " ".join([name, *(word.lower() for word in words[1:])]), given)
