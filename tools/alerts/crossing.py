"""When an alert fires: pure rules over one look after another.

A look is at or beyond its threshold, on the other side, or unknown. An alert fires at a look that is beyond it, when an
earlier look was on the other side: that look armed it. So the first look arms, or does not, and never fires; a price
that is beyond a level when the alert is written has to come back before it can cross. An unknown look neither arms nor
fires, and a span for which the condition was to hold begins again after it.

A move since the last close, or since the open, is measured anew in each session: that is a new question, and the price
was at its reference when the session began. So a later session than that of the first look begins armed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from chordesk.tools.market.clock import ExchangeHours

Rearm = Literal["outside", "cooldown", "once"]
BACK = 0.1  # of the distance that the alert was armed at
LEAST_DISTANCE = 0.01  # of the threshold: what is armed nearer to it counts as this far away
MOST_SEEN = 500  # ids that are kept


@dataclass(frozen=True, slots=True)
class Tick:
    """One look. at: market time; day: its session; beyond: how far beyond the threshold, in parts of it, below 0 on the
    other side of it; None where it is not known, then `why` says why."""

    at: dt.datetime
    day: dt.date
    beyond: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a person chose. hours: of the exchange, by which `for_minutes` are counted; anew: each session is measured
    from a reference of its own."""

    for_minutes: int
    rearm: Rearm
    cooldown_minutes: int
    hours: ExchangeHours
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Crossing:
    """What an alert remembers of one symbol. distance: the farthest from the threshold while it is armed; held_at: the
    first of the looks in a row at which the condition holds; fired_on, looked_on: the sessions of the last firing and
    the last look."""

    armed: bool = False
    distance: float = 0.0
    held_at: dt.datetime | None = None
    fired_at: dt.datetime | None = None
    fired_on: dt.date | None = None
    looked_on: dt.date | None = None


def step(before: Crossing, tick: Tick, terms: Terms) -> tuple[Crossing, bool]:
    """Return what is remembered after a look, and whether it fires."""
    now = replace(before, looked_on=tick.day)
    if _begins_anew(before, tick, terms):
        now = replace(now, armed=True, distance=1.0)  # at its reference a price is the whole move away
    if tick.beyond is None:
        return replace(now, held_at=None), False
    if not now.armed and _is_back(now, tick, terms):
        now = replace(now, armed=True, distance=0.0)
    if tick.beyond < 0:
        distance = max(now.distance, -tick.beyond) if now.armed else now.distance
        return replace(now, distance=distance, held_at=None), False
    if not now.armed:
        return replace(now, held_at=None), False
    held_at = now.held_at or tick.at
    if open_minutes(terms.hours, held_at, tick.at) < terms.for_minutes:
        return replace(now, held_at=held_at), False
    return replace(now, armed=False, held_at=None, fired_at=tick.at, fired_on=tick.day), True


def _begins_anew(before: Crossing, tick: Tick, terms: Terms) -> bool:
    """Return whether a look is the first of a session that is a new question. After a firing the person's other choices
    hold: never again, or after a while."""
    later = before.looked_on is not None and tick.day > before.looked_on
    return terms.anew and later and (before.fired_at is None or terms.rearm == "outside")


def _is_back(now: Crossing, tick: Tick, terms: Terms) -> bool:
    """Return whether a look arms what is not armed.

    Before the first firing any look on the other side does. After one, a price that trembles at its level would fire at
    every second look, so that it has to come back by a tenth of the distance at which it had been armed (an alert at
    200, armed at 180, is armed again at 198), or to be on the other side in a later session. The distance counts as one
    hundredth of the threshold at least: an alert that was armed at its very level would else tremble too.
    """
    assert tick.beyond is not None
    if now.fired_at is None:
        return tick.beyond < 0
    if terms.rearm == "once":
        return False
    if terms.rearm == "cooldown":
        return tick.at - now.fired_at >= dt.timedelta(minutes=terms.cooldown_minutes)
    if tick.beyond >= 0:
        return False
    later = now.fired_on is not None and tick.day > now.fired_on
    return later or -tick.beyond >= round(BACK * max(now.distance, LEAST_DISTANCE), 9)  # 0.1 * 0.1 is above 0.01


def open_minutes(hours: ExchangeHours, since: dt.datetime, until: dt.datetime) -> float:
    """Return the minutes of regular sessions between two moments: a night is no time for which a price held."""
    found = 0.0
    for day in hours.between((since - dt.timedelta(days=1)).date(), (until + dt.timedelta(days=1)).date()):
        begins, ends = max(since, hours.open_of(day)), min(until, hours.close_of(day))
        found += max((ends - begins).total_seconds() / 60, 0.0)
    return found


def news(seen: Sequence[str] | None, found: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the ids that are remembered after a look at things that happen, and those that are new: none at the first
    look, which only fills what is remembered."""
    fresh = [] if seen is None else [one for one in found if one not in set(seen)]
    kept = [*found, *(one for one in seen or () if one not in set(found))]
    return kept[: max(MOST_SEEN, len(found))], fresh
