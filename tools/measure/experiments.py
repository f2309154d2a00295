"""Arms of an experiment on one history, compared in pairs: by session and by name judged; and how long one must be."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import stdev

from chordesk.tools.scoring.inference import (
    LEAST_DATES,
    LEAST_VALUES,
    LEVEL,
    Estimate,
    Observation,
    cosines_of,
    estimate,
    t_quantile,
    told_apart,
)
from chordesk.tools.scoring.statistics import brier

_POWER = 0.8  # of the differences of the size asked for, so many are found
RETURN, SCORE = "return a session", "Brier score, less is better"


@dataclass(frozen=True, slots=True)
class Call:
    """What an arm said of a name on a day. probability: that it beats the universe; None where stances decided.
    verdict: its id."""

    rating: str
    probability: float | None
    verdict: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Course:
    """What an arm came to. equity: by session, None while a position had no price. tokens: of all its turns."""

    arm: str
    run_id: str
    equity: Mapping[dt.date, float | None]
    calls: Mapping[tuple[str, dt.date], Call]
    tokens: int

    def returns(self) -> dict[dt.date, float]:
        days = sorted(self.equity)
        pairs = ((day, self.equity[before], self.equity[day]) for before, day in pairwise(days))
        return {day: now / then - 1 for day, then, now in pairs if then and now is not None}


@dataclass(frozen=True, slots=True)
class Difference:
    """An arm less the first one. found: mean with error; None without a pair. chance: p-value. told: whether it is told
    from zero among all differences of the experiment, with joint bounds low and high. needed: sessions that would show
    a difference of the size asked for in four of five tries."""

    arm: str
    what: str
    found: Estimate | None
    chance: float
    told: bool
    low: float | None
    high: float | None
    needed: int | None


@dataclass(frozen=True, slots=True)
class Other:
    """A name that two arms judged apart. None: the arm did not judge it."""

    day: dt.date
    symbol: str
    first: Call | None
    arm: Call | None


def compare(
    courses: Sequence[Course],
    outcome: Callable[[str, dt.date], float | None],
    horizon: int,
    size: float | None = None,
) -> list[Difference]:
    """Return the differences of each arm from the first, by session and by name. outcome: whether a name beat the
    universe over the horizon, in sessions, after a day."""
    first, others = courses[0], courses[1:]
    found = {
        (course.arm, what): pair(first, course)
        for course in others
        for what, pair in ((RETURN, _by_session), (SCORE, lambda one, two: _by_name(one, two, outcome, horizon)))
    }
    told, by_name = told_apart(found), {course.arm: course for course in others}
    return [
        Difference(
            arm,
            what,
            one,
            one.chance if one is not None else 1.0,
            (arm, what) in told,
            told.get((arm, what), (None, None))[0],
            told.get((arm, what), (None, None))[1],
            _needed(first, by_name[arm], size) if what == RETURN and size else None,
        )
        for (arm, what), one in found.items()
    ]


def _less(first: Course, arm: Course) -> list[float]:
    ours, theirs = arm.returns(), first.returns()
    return [ours[day] - theirs[day] for day in sorted(ours.keys() & theirs.keys())]


def _by_session(first: Course, arm: Course) -> Estimate | None:
    return estimate(Observation(value, place, place + 1) for place, value in enumerate(_less(first, arm)))


def _needed(first: Course, arm: Course, size: float) -> int | None:
    values = _less(first, arm)
    return needed(stdev(values), size) if len(values) >= LEAST_DATES and any(values) else None


def _by_name(
    first: Course, arm: Course, outcome: Callable[[str, dt.date], float | None], horizon: int
) -> Estimate | None:
    place = {day: at for at, day in enumerate(sorted(first.equity))}
    found = []
    for key in sorted(first.calls.keys() & arm.calls.keys()):
        symbol, day = key
        ours, theirs, came = arm.calls[key].probability, first.calls[key].probability, outcome(symbol, day)
        if ours is not None and theirs is not None and came is not None and day in place:
            value = brier(ours, came) - brier(theirs, came)
            found.append(Observation(value, place[day], place[day] + horizon, symbol))
    return estimate(found)


def needed(spread: float, size: float) -> int:
    """Return how many sessions show a mean difference of this size with a chance of 80 %. spread: standard deviation
    of the differences, of sessions that do not hang together. The degrees of freedom are those that so many sessions
    have in `estimate`."""
    sessions = LEAST_VALUES
    for _ in range(20):
        degrees = cosines_of(sessions, sessions)
        reach = t_quantile(1 - LEVEL, degrees) + t_quantile(2 * (1 - _POWER), degrees)
        sessions = max(LEAST_VALUES, math.ceil((reach * spread / size) ** 2))
    return sessions


def differing(first: Course, arm: Course) -> list[Other]:
    """Return the names that the arms judged apart, by day."""
    keys = sorted(first.calls.keys() | arm.calls.keys(), key=lambda key: (key[1], key[0]))
    pairs = ((key, first.calls.get(key), arm.calls.get(key)) for key in keys)
    return [
        Other(day, symbol, one, two)
        for (symbol, day), one, two in pairs
        if (one.rating if one else None) != (two.rating if two else None)
    ]
