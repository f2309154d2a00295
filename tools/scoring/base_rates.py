"""Base rates: how often names in a like state rose, and beat the median of all names, over so many sessions.

A state is of three parts, each of closes up to its own day: the trend (close against its mean of 50 sessions), the
volatility (which third of all names of that day, by 20 daily log returns) and the distance from the highest close of 60
sessions. A case is a name on a past day whose outcome is known by the day that is asked for: nothing later is read.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.prices import MOST_MISSING
from chordesk.tools.market.protocol import Floats
from chordesk.tools.price_panel import beat_median, change
from chordesk.tools.scoring.inference import (
    LEAST_DATES,
    LEAST_SPANS,
    LEAST_VALUES,
    TOO_FEW,
    Estimate,
    cosines_of,
    share_bounds,
    with_error,
)
from chordesk.tools.scoring.long_run import Places, variances

TREND_SESSIONS, VOLATILITY_SESSIONS, HIGH_SESSIONS = 50, 20, 60
NEAR, FAR = -0.05, -0.20  # from the high
LEAST_CASES = 100
_DAYS_A_HORIZON = 4  # cases are of every day, or of so many days a horizon: closer ones say nearly the same
_TRENDS = ("close below its mean of 50 sessions", "close above its mean of 50 sessions")
_VOLATILITIES = ("lowest third of volatility", "middle third of volatility", "highest third of volatility")
_DISTANCES = ("over 20 % below its high of 60 sessions", "5 to 20 % below its high of 60 sessions",
              "within 5 % of its high of 60 sessions")  # fmt: skip
BINS = (_TRENDS, _VOLATILITIES, _DISTANCES)
UNKNOWN = -1
States = npt.NDArray[np.int8]


class Rate(NamedTuple):
    """A share of n cases, with its 95 % bounds: None where the cases are too few, or of too few days apart."""

    share: float
    n: int
    low: float | None
    high: float | None


class BaseRate(NamedTuple):
    """What became of n names like this over `horizon` sessions."""

    horizon: int
    like: tuple[str, ...]  # the parts of the state that hold, none where so few cases have them that all names count
    rose: Rate  # above 0
    beat: Rate  # above the median of all names over the same days
    # move, move_low, move_high: the median return, and those that one case in ten is below and above
    move: float
    move_low: float
    move_high: float


class Cases(NamedTuple):
    """Names on past days whose state and outcome are known. name, day: row and column in the closes; ahead: the return
    over the horizon; beat: of the median; states: 3 x n, as of `states_of`."""

    name: npt.NDArray[np.int32]
    day: npt.NDArray[np.int32]
    ahead: Floats
    beat: Floats
    states: States

    def taken(self, which: npt.NDArray[np.bool_]) -> Cases:
        return Cases(*(values[..., which] for values in self))  # type: ignore[arg-type]


def states_of(close: Floats) -> States:
    """Return the state of each name and session by the places in BINS, 3 x n x T; UNKNOWN where a figure is missing,
    or more than a tenth of its sessions. close: a row a name, a column a session, not a number without a bar."""
    changes = np.diff(np.log(close), axis=1, prepend=np.nan)
    trend = np.sign(close / mean(close, TREND_SESSIONS) - 1)
    spread = mean(changes**2, VOLATILITY_SESSIONS) - mean(changes, VOLATILITY_SESSIONS) ** 2
    fall = close / highest(close, HIGH_SESSIONS) - 1
    parts = np.full((3, *close.shape), UNKNOWN, dtype=np.int8)
    for at in range(close.shape[1]):
        known = np.isfinite(spread[:, at])
        if known.any():
            thirds = np.quantile(spread[known, at], (1 / 3, 2 / 3))
            parts[1, known, at] = np.searchsorted(thirds, spread[known, at])
    parts[0] = np.where(np.isfinite(trend), trend > 0, UNKNOWN)
    parts[2] = np.where(np.isfinite(fall), np.digitize(fall, (FAR, NEAR)), UNKNOWN)
    return parts


class BaseRates:
    """The base rates of a universe at one day. close: as of `states_of`; at: the column of the day, the last one by
    default; later columns are not looked at."""

    def __init__(self, close: Floats, at: int | None = None) -> None:
        self._close = close if at is None else close[:, : at + 1]
        self._states = states_of(self._close)
        self._cases: dict[int, Cases] = {}
        self._rates: dict[tuple[int, tuple[int, ...]], BaseRate | None] = {}

    def of(self, row: int, horizon: int) -> BaseRate | None:
        """Return the rate of a row's state; with too few cases that of a part of it, the trend last. None where its
        state is not known, or no outcome is."""
        state = self._states[:, row, -1]
        if (state == UNKNOWN).any():
            return None
        trend, volatility, high = map(int, state)
        found = None
        for wanted in ((trend, volatility, high), (trend, UNKNOWN, high), (trend, UNKNOWN, UNKNOWN), (UNKNOWN,) * 3):
            found = self._rate(horizon, wanted)
            if found is not None and found.rose.n >= LEAST_CASES and found.rose.low is not None:
                break
        return found

    def _rate(self, horizon: int, wanted: tuple[int, ...]) -> BaseRate | None:
        if (horizon, wanted) not in self._rates:
            self._rates[horizon, wanted] = self._computed(horizon, wanted)
        return self._rates[horizon, wanted]

    def _computed(self, horizon: int, wanted: tuple[int, ...]) -> BaseRate | None:
        cases = self._cases_of(horizon)
        like = [cases.states[part] == place for part, place in enumerate(wanted) if place != UNKNOWN]
        found = cases.taken(np.logical_and.reduce(like)) if like else cases
        if not len(found.day):
            return None
        low, middle, high = np.quantile(found.ahead, (0.1, 0.5, 0.9)).tolist()
        parts = tuple(BINS[part][place] for part, place in enumerate(wanted) if place != UNKNOWN)
        rose = _share(np.where(found.ahead > 0, 1.0, 0.0), found, horizon)
        return BaseRate(horizon, parts, rose, _share(found.beat, found, horizon), middle, low, high)

    def _cases_of(self, horizon: int) -> Cases:
        if horizon not in self._cases:
            last, step = self._close.shape[1] - 1 - horizon, math.ceil(horizon / _DAYS_A_HORIZON)
            days = np.arange(last, -1, -step)[::-1]
            ahead = change(self._close, horizon)[:, days + horizon]
            states = self._states[:, :, days]
            name, at = np.nonzero(np.isfinite(ahead) & (states != UNKNOWN).all(axis=0))
            beat = beat_median(self._close, horizon)[name, days[at]]
            place, day = name.astype(np.int32), days[at].astype(np.int32)
            self._cases[horizon] = Cases(place, day, ahead[name, at], beat, states[:, name, at])
        return self._cases[horizon]


def _share(outcome: Floats, cases: Cases, horizon: int) -> Rate:
    found = _estimate(outcome, cases.day, horizon, cases.name)
    low, high = share_bounds(found) or (None, None)
    return Rate(found.mean, found.n, low, high)


def _estimate(values: Floats, day: Places, span: int, name: Places) -> Estimate:
    """Return the mean with its error of one value at least, all of weight 1, as `inference.estimate`
    does. day: the number of a session, and the outcome is known so many later; name: a number from 0."""
    days, places = np.unique(day, return_inverse=True)
    by_date, n = np.bincount(places), len(values)
    overlaps = np.maximum(1, np.searchsorted(days, days + span) - np.arange(len(days)))
    overlap = int(np.partition(overlaps[places], at := math.ceil(0.9 * (n - 1)))[at])
    dates = n**2 / float((by_date**2).sum())
    found = Estimate(float(values.mean()), n, len(days), dates / overlap)
    if n < LEAST_VALUES or len(days) < LEAST_DATES or found.spans < LEAST_SPANS:
        return replace(found, lack=TOO_FEW)
    off, cosines = values - found.mean, cosines_of(dates, found.spans)
    return with_error(
        found, float((off**2).sum()), n, variances(places, off, np.ones(n), name, by_date, cosines, overlap)
    )


def mean(values: Floats, sessions: int) -> Floats:
    """Return the mean of the last so many sessions, not a number where more than a tenth of them are missing, or the
    last one."""
    known = np.isfinite(values)
    total, count = (_window(part, sessions) for part in (np.where(known, values, 0.0), known.astype(np.float64)))
    enough = known & (count >= sessions * (1 - MOST_MISSING))
    found = np.full(values.shape, np.nan)
    found[enough] = total[enough] / count[enough]
    return found


def _window(values: Floats, sessions: int) -> Floats:
    """Return the sum of the last so many columns, of fewer at the beginning."""
    sums = np.cumsum(values, axis=1)
    sums[:, sessions:] -= sums[:, :-sessions].copy()
    return sums


def highest(close: Floats, sessions: int) -> Floats:
    known = np.isfinite(close)
    found, width = np.where(known, close, -np.inf), 1  # the highest of the last so many columns
    while width < sessions:
        back = min(width, sessions - width)
        found[:, back:] = np.maximum(found[:, back:], found[:, :-back])
        width += back
    found[~known | (_window(known.astype(np.float64), sessions) < sessions * (1 - MOST_MISSING))] = np.nan
    return found
