"""Base rates: how often names in a like state rose, and beat the median of all names, over so many sessions.

A state is of three parts, each of closes up to its own day: the trend (close against its mean of 50 sessions), the
volatility (which third of all names of that day, by 20 daily log returns) and the distance from the highest close of 60
sessions. A case is a name on a past day whose outcome is known by the day that is asked for: nothing later is read.

To beat the median is a comparison among the cases of one day, so that its mean over them is one half, whatever names
have holes. The shares of states are drawn towards one half, with the weight of their error against how far states
differ at all (empirical Bayes: Efron and Morris, 1975), and moved so that they average one half over the names of the
day that is asked for: of all names half beat their median, on that day too. Nothing is said of a state with fewer
than LEAST_CASES, or without bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.prices import MOST_MISSING
from chordesk.tools.market.protocol import Floats
from chordesk.tools.prices.price_panel import change
from chordesk.tools.scoring.inference import (
    LEAST_DATES,
    LEAST_SPANS,
    LEAST_VALUES,
    TOO_FEW,
    Estimate,
    Z,
    cosines_of,
    share_bounds,
    with_error,
)

if TYPE_CHECKING:
    from chordesk.tools.scoring.long_run import Places

TREND_SESSIONS, VOLATILITY_SESSIONS, HIGH_SESSIONS = 50, 20, 60
NEAR, FAR = -0.05, -0.20  # from the high
LEAST_CASES = 100
LEAST_SPREAD = 0.005  # of the shares of states around one half: no record is long enough to say that none differ
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
    # above the median of the day's cases: drawn towards one half, and one half on average over the names of today
    beat: Rate
    # move: the median return of all cases and how far names like this were from that of their day, drawn alike;
    # move_low, move_high: the returns that one case in ten is below and above
    move: float
    move_low: float
    move_high: float


class Cases(NamedTuple):
    """Names on past days whose state and outcome are known. name, day: row and column in the closes; ahead: the return
    over the horizon; beat, apart: as of `_against_median`; states: 3 x n, as of `states_of`."""

    name: npt.NDArray[np.int32]
    day: npt.NDArray[np.int32]
    ahead: Floats
    beat: Floats
    apart: Floats
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


State = tuple[int, ...]  # a place in each of BINS that counts


class _Cell(NamedTuple):
    """The cases of one state. beat, error: of the share that beat the median; apart: the median of how far the return
    was from its day's median."""

    cases: Cases
    beat: float
    error: float
    apart: float


class _Today(NamedTuple):
    """What holds on the day that is asked for. cells: by the parts and places that count; states: of each row, those of
    its cell; market: the median return of all cases; shift: log odds by which all shares are moved."""

    cells: Mapping[tuple[State, State], tuple[_Cell, _Drawn]]
    states: Mapping[int, tuple[State, State]]
    market: float
    shift: float


class BaseRates:
    """The base rates of a universe at one day. close: as of `states_of`; at: the column of the day, the last one by
    default; later columns are not looked at."""

    def __init__(self, close: Floats, at: int | None = None) -> None:
        self._close = close if at is None else close[:, : at + 1]
        self._states = states_of(self._close)
        self._days: dict[int, _Today] = {}
        self._rates: dict[tuple[int, State, State], BaseRate] = {}

    def of(self, row: int, horizon: int) -> BaseRate | None:
        """Return the rate of a row's state; with too few cases that of a part of it, the trend last, and that of all
        names, half of which beat their median. None where the row's state is not known, or all cases are too few."""
        if horizon not in self._days:
            self._days[horizon] = self._today(horizon)
        today = self._days[horizon]
        if (state := today.states.get(row)) is None:
            return None
        if (horizon, *state) not in self._rates:
            self._rates[horizon, *state] = _rate(horizon, *state, *today.cells[state], today)
        return self._rates[horizon, *state]

    def _today(self, horizon: int) -> _Today:
        cases = self._cases_of(horizon)
        whole = _cell(cases, horizon)
        if whole is None:
            return _Today({}, {}, 0.0, 0.0)
        cells: dict[tuple[State, State], tuple[_Cell, _Drawn]] = {((), ()): (whole, _Drawn(0.5, LEAST_SPREAD, 0.0))}
        known = np.flatnonzero((self._states[:, :, -1] != UNKNOWN).all(axis=0)).tolist()
        states: dict[int, tuple[State, State]] = {}
        for parts in _LEVELS:
            left = {row: tuple(self._states[list(parts), row, -1].tolist()) for row in known if row not in states}
            if not left:
                break
            # All of a level, for how far its states differ is part of each.
            found = _drawn(self._cells(cases, horizon, parts))
            cells |= {(parts, key): cell for key, cell in found.items()}
            states |= {row: (parts, key) for row, key in left.items() if key in found}
        states |= {row: ((), ()) for row in known if row not in states}
        return _Today(
            cells, states, float(np.median(cases.ahead)), _centre([cells[one][1].share for one in states.values()])
        )

    def _cells(self, cases: Cases, horizon: int, parts: State) -> dict[State, _Cell]:
        """Return the states of some parts that have enough cases."""
        found = {}
        for key in np.unique(cases.states[list(parts)], axis=1).T:
            like = (cases.states[list(parts)] == key[:, None]).all(axis=0)
            if (cell := _cell(cases.taken(like), horizon)) is not None:
                found[tuple(key.tolist())] = cell
        return found

    def _cases_of(self, horizon: int) -> Cases:
        last, step = self._close.shape[1] - 1 - horizon, math.ceil(horizon / _DAYS_A_HORIZON)
        days = np.arange(last, -1, -step)[::-1]
        ahead = change(self._close, horizon)[:, days + horizon]
        states = self._states[:, :, days]
        counts = np.isfinite(ahead) & (states != UNKNOWN).all(axis=0)
        # The median is of the cases themselves: of other names it would favour the cases, or hinder them.
        apart, beat = _against_median(np.where(counts, ahead, np.nan))
        name, at = np.nonzero(counts)
        place, day = name.astype(np.int32), days[at].astype(np.int32)
        return Cases(place, day, ahead[name, at], beat[name, at], apart[name, at], states[:, name, at])


_LEVELS = ((0, 1, 2), (0, 2), (0,))


class _Drawn(NamedTuple):
    """A share after it was drawn towards one half: its error, and the weight that its own cases have."""

    share: float
    error: float
    weight: float


def _against_median(ahead: Floats) -> tuple[Floats, Floats]:
    """Return (how far each return is from its column's median, 1 above it, 0.5 at it and 0 below), the second moved so
    that each column averages one half where returns are equal."""
    apart, beat = np.full(ahead.shape, np.nan), np.full(ahead.shape, np.nan)
    known = np.isfinite(ahead).any(axis=0)
    apart[:, known] = ahead[:, known] - np.nanmedian(ahead[:, known], axis=0)
    beat[:, known] = (1 + np.sign(apart[:, known])) / 2
    beat[:, known] += 0.5 - np.nanmean(beat[:, known], axis=0)
    return apart, beat


def _cell(cases: Cases, horizon: int) -> _Cell | None:
    """Return the figures of cases; None where they are too few, or of too few days apart."""
    if len(cases.day) < LEAST_CASES:
        return None
    beat = _estimate(cases.beat, cases.day, horizon, cases.name)
    if beat.lack == TOO_FEW:
        return None
    # Of few horizons an error is itself uncertain: as wide as Student's interval.
    error = 0.0 if beat.low is None or beat.high is None else (beat.high - beat.low) / (2 * Z)
    return _Cell(cases, beat.mean, error, float(np.median(cases.apart)))


def _drawn(cells: Mapping[State, _Cell]) -> dict[State, tuple[_Cell, _Drawn]]:
    """Return each state with its share drawn towards one half.

    A share is s = 1/2 + d + e: d with the variance v over states, e with the share's own error. Then the expectation of
    d is (s - 1/2) v / (v + error^2), with the variance v error^2 / (v + error^2). v is the mean square of s - 1/2, by
    n, less that of the errors (DerSimonian and Laird, 1986), and LEAST_SPREAD^2 at least.
    """
    total = sum(len(cell.cases.day) for cell in cells.values())
    excess = sum(len(cell.cases.day) * ((cell.beat - 0.5) ** 2 - cell.error**2) for cell in cells.values())
    variance = max(LEAST_SPREAD**2, excess / total if total else 0.0)
    found = {}
    for key, cell in cells.items():
        weight = variance / (variance + cell.error**2)
        found[key] = cell, _Drawn(0.5 + weight * (cell.beat - 0.5), math.sqrt(weight) * cell.error, weight)
    return found


def _rate(horizon: int, parts: State, places: State, cell: _Cell, drawn: _Drawn, today: _Today) -> BaseRate:
    cases = cell.cases
    rose = _estimate(np.where(cases.ahead > 0, 1.0, 0.0), cases.day, horizon, cases.name)
    low, high = share_bounds(rose) or (None, None)
    shares = (drawn.share, drawn.share - Z * drawn.error, drawn.share + Z * drawn.error)
    beat = Rate(_moved(shares[0], today.shift), rose.n, *(_moved(share, today.shift) for share in shares[1:]))
    move_low, move_high = np.quantile(cases.ahead, (0.1, 0.9)).tolist()
    move = min(max(today.market + drawn.weight * cell.apart, move_low), move_high)
    like = tuple(BINS[part][place] for part, place in zip(parts, places, strict=True))
    return BaseRate(horizon, like, Rate(rose.mean, rose.n, low, high), beat, move, move_low, move_high)


def _moved(share: float, shift: float) -> float:
    """Return a share moved down by so many log odds."""
    inside = min(max(share, 0.001), 0.999)
    return 1 / (1 + math.exp(shift - math.log(inside / (1 - inside))))


def _centre(shares: Sequence[float]) -> float:
    """Return the log odds by which the shares of one day's names are moved, so that they average one half: by Newton's
    method, whose function is monotonic and nearly straight here."""
    if not shares:
        return 0.0
    known, shift = np.array(shares), 0.0
    odds = np.log(known / (1 - known))
    for _ in range(20):
        moved = 1 / (1 + np.exp(-(odds - shift)))
        shift += float((moved.mean() - 0.5) / (moved * (1 - moved)).mean())
    return shift


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
    from chordesk.tools.scoring.long_run import variances  # few processes estimate anything

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
