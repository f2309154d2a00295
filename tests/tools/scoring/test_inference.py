"""Errors of overlapping values: coverage and power by simulation, what has no error, what holds for many at once.

`.venv/bin/python -m tests.tools.scoring.test_inference 1000` prints the whole table of docs/decisions/board.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.inference import (
    ALL_ALIKE,
    LEAST_DATES,
    LEAST_SPANS,
    LEAST_VALUES,
    LEVEL,
    TOO_FEW,
    Estimate,
    Observation,
    estimate,
    known_estimate,
    reach_text,
    share_bounds,
    t_chance,
    t_quantile,
    told_apart,
    wilson,
)
from chordesk.tools.scoring.long_run import LOW, STANDS_OUT

STEP = 0.1  # of a probability from one half
NOISE = 0.015  # standard deviation of a name's daily return beside its market's
FORECASTERS = ("guessing", "persistent", "tilted", "skilled", "persistent and skilled", "by name", "drifting")
Floats = npt.NDArray[np.float64]


def positions(
    forecaster: str, draws: np.random.Generator, ahead: Floats, betas: Floats, every: int
) -> tuple[Floats, Floats | None]:
    """Return p - 0.5 by draw, question day and name, and by draw and day how strong a view that drifts was.

    persistent: a side that is kept for a mean of 100 sessions. tilted: for names that move more than the market, for
    ever. skilled: by a noisy view of what comes. by name: by one that is better on some names. drifting: by one whose
    strength, 1 on average, drifts over 60 sessions.
    """
    count, days, names = ahead.shape
    flips = draws.random(ahead.shape) < 1 - 0.99**every
    sides = draws.choice([-1.0, 1.0], (count, 1, names)) * np.where(np.cumsum(flips, axis=1) % 2, -1, 1)
    if forecaster == "guessing":
        return draws.normal(0, STEP, ahead.shape), None
    if forecaster == "persistent":
        return STEP * sides, None
    if forecaster == "tilted":
        return np.broadcast_to(STEP * np.sign(betas - 1), ahead.shape), None
    noise = draws.normal(0, 4, ahead.shape) + (2 * sides if forecaster == "persistent and skilled" else 0)
    strength = np.ones((count, days, 1))
    if forecaster == "by name":
        strength = draws.normal(1, 1, (count, 1, names))
    if forecaster == "drifting":
        kept, drift = math.exp(-every / 60), draws.normal(size=(count, days, 1))
        for day in range(1, days):
            drift[:, day] = kept * drift[:, day - 1] + math.sqrt(1 - kept**2) * drift[:, day]
        strength = 1 + drift
    seen = strength * ahead / ahead.std(axis=2, keepdims=True) + noise
    return STEP / 2 * np.sign(seen), strength[:, :, 0] if forecaster == "drifting" else None


class Cell(NamedTuple):
    names: int
    sessions: int
    horizon: int
    every: int  # sessions between questions


def alphas(forecaster: str, draws: np.random.Generator, cell: Cell, count: int) -> tuple[Floats, Floats | None]:
    """Return by draw, day and name the alpha of the question "does this name beat the median over the horizon", of
    names that share a market, and the strength of `positions`."""
    betas = draws.normal(1, 0.3, (count, 1, cell.names))
    length = cell.sessions + cell.horizon
    market = draws.normal(0, 0.01, (count, length, 1)) * betas
    prices = np.zeros((count, length + 1, cell.names))
    prices[:, 1:] = np.cumsum(market + draws.normal(0, NOISE, (count, length, cell.names)), axis=1)
    days = np.arange(0, cell.sessions, cell.every)
    ahead = prices[:, days + cell.horizon] - prices[:, days]
    ahead -= np.median(ahead, axis=2, keepdims=True)
    given, strength = positions(forecaster, draws, ahead, betas, cell.every)
    outcomes = ahead > 0
    return 0.25 - (0.5 + given - outcomes) ** 2, strength


def intervals(points: Floats, cell: Cell) -> tuple[Floats, Floats, Floats] | None:
    """Return mean and bounds of each draw as `estimate` has them, for all draws at once; None where they are too
    few."""
    _, days, names = points.shape
    n, overlap = days * names, -(-cell.horizon // cell.every)
    if n < LEAST_VALUES or days < LEAST_DATES or days / overlap < LEAST_SPANS:
        return None
    mean = points.mean(axis=(1, 2))
    off = points - mean[:, None, None]
    number = np.arange(1, max(3, int(min(days / overlap / 3, 0.41 * days ** (2 / 3)))) + 1)
    waves = np.cos(np.pi * np.outer(number, np.arange(days) + 0.5) / days)
    half = np.pi * number / (2 * days)
    left = (np.sin(overlap * half) / (overlap * np.sin(half))) ** 2
    squares = (off.sum(axis=2) @ waves.T) ** 2 / (left * (waves**2).sum(axis=1) / days)
    by_date, cosines = squares.mean(axis=1), np.full(len(points), len(number))
    if len(number) > LOW:
        drifts = squares[:, :LOW].mean(axis=1) > STANDS_OUT * squares[:, LOW:].mean(axis=1)
        by_date = np.where(drifts, squares[:, :LOW].mean(axis=1), by_date)
        cosines = np.where(drifts, LOW, cosines)
    near = sum((2 if lag else 1) * (off[:, lag:] * off[:, : days - lag]).sum(axis=(1, 2)) for lag in range(overlap))
    lacking = (days**2 - (overlap * (2 * days - overlap + 1) - days)) * names / n**2
    whole = (off.sum(axis=1) ** 2).sum(axis=1) + by_date * lacking
    shared = np.maximum(0, whole - near) / (1 - lacking)
    variance = by_date + shared
    variance[variance < 1e-9] = np.nan  # all alike
    degrees = np.maximum(1, np.floor(variance**2 / (by_date**2 / cosines + shared * whole / (names - 1))))
    reach = stats.t.ppf(0.5 + LEVEL / 2, degrees) * np.sqrt(variance) / n
    return mean, mean - reach, mean + reach


class Coverage(NamedTuple):
    """How often the interval holds the mean of all draws, or the mean of its own sessions where strength drifts, and
    how often it lies above zero."""

    all: float
    own: float | None
    above: float


@cache
def alpha_of_strength() -> tuple[Floats, Floats]:
    """Return strengths, and the mean alpha that each has."""
    draws, strengths = np.random.default_rng(5), np.linspace(-5, 7, 121)
    ahead, noise = draws.normal(size=100_000), draws.normal(0, 4, 100_000)
    sides = (np.sign(one * ahead + noise) for one in strengths)
    return strengths, np.array([np.mean(0.25 - (0.5 + STEP / 2 * side - (ahead > 0)) ** 2) for side in sides])


def coverage(forecaster: str, cell: Cell, count: int) -> Coverage | None:
    draws = np.random.default_rng(sum(cell) + len(forecaster))
    batch = max(1, 2_000_000 // (cell.names * cell.sessions))
    found, own = [], []
    for first in range(0, count, batch):
        points, strength = alphas(forecaster, draws, cell, min(batch, count - first))
        if (bounds := intervals(points, cell)) is None:
            return None
        found.append(np.array(bounds))
        if strength is not None:
            own.append(np.interp(strength, *alpha_of_strength()).mean(axis=1))
    mean, low, high = np.concatenate(found, axis=1)
    told = ~np.isnan(low)
    mean, low, high, held = mean[told], low[told], high[told], np.concatenate(own)[told] if own else None
    within = None if held is None else float(np.mean((low <= held) & (held <= high)))
    return Coverage(float(np.mean((low <= mean.mean()) & (mean.mean() <= high))), within, float(np.mean(low > 0)))


@pytest.mark.parametrize(
    ("forecaster", "cell"),
    [
        ("persistent", Cell(8, 60, 10, 1)),
        ("by name", Cell(50, 120, 5, 1)),
        ("drifting", Cell(12, 250, 1, 1)),
        ("skilled", Cell(8, 250, 10, 5)),
    ],
)
def test_the_simulated_interval_is_that_of_the_desk(forecaster: str, cell: Cell) -> None:
    points, _ = alphas(forecaster, np.random.default_rng(1), cell, 4)
    simulated = intervals(points, cell)
    assert simulated is not None
    for draw, row in enumerate(points):
        found = estimate(
            Observation(float(value), day, day + cell.horizon, str(name))
            for day, values in zip(range(0, cell.sessions, cell.every), row, strict=True)
            for name, value in enumerate(values)
        )
        assert found is not None
        assert (found.mean, found.low, found.high) == pytest.approx([one[draw] for one in simulated])


@pytest.mark.parametrize("forecaster", FORECASTERS)
@pytest.mark.parametrize("cell", [Cell(8, 60, 10, 1), Cell(50, 120, 10, 5)])
def test_nominal_95_covers_95(forecaster: str, cell: Cell) -> None:
    """With 300 draws the coverage is known to .013; that of strength that drifts is of its own sessions."""
    found = coverage(forecaster, cell, 300)
    assert found is not None
    if found.own is None:
        assert 0.92 <= found.all <= 0.99
    else:
        assert found.own >= 0.94


def test_skill_shows_and_its_absence_does_not() -> None:
    skilled, guessing = (coverage(one, Cell(50, 120, 5, 1), 60) for one in ("skilled", "guessing"))
    assert skilled is not None
    assert guessing is not None
    assert skilled.above > 0.9
    assert guessing.above == 0


def observed(values: Sequence[float], span: int = 1) -> Iterator[Observation]:
    return (Observation(value, day, day + span) for day, value in enumerate(values))


def test_weights_count_a_date_once() -> None:
    """Nine values of a ninth are one value; the mean is that of the dates."""
    draws = np.random.default_rng(5)
    counts, values = draws.integers(1, 9, 40), draws.normal(size=40)
    each = estimate(observed(values))
    rows = [
        Observation(value, day, day + 1, "", 1 / counts[day])
        for day, value in enumerate(values)
        for _ in range(counts[day])
    ]
    shared = estimate(rows)
    assert each is not None
    assert shared is not None
    assert (shared.mean, shared.error) == (pytest.approx(each.mean), pytest.approx(each.error))


@pytest.mark.parametrize(
    ("values", "dates", "span"),
    [(LEAST_VALUES - 1, LEAST_VALUES - 1, 1), (200, LEAST_DATES - 1, 1), (200, 40, 40 // LEAST_SPANS + 1), (1, 1, 1)],
)
def test_below_the_least_there_is_no_error(values: int, dates: int, span: int) -> None:
    draws = np.random.default_rng(7).normal(size=values)
    found = estimate(Observation(value, at % dates, at % dates + span) for at, value in enumerate(draws))
    assert found is not None
    assert (found.n, found.error, found.effective, found.low, found.lack) == (values, None, None, None, TOO_FEW)
    assert reach_text(found) == f"too few, n {values}"


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1])
def test_values_that_are_all_alike_have_no_error(value: float) -> None:
    """As a share they are worth a try each span: 100 dates with outcomes of 10 are ten tries."""
    found = estimate(observed([value] * 100, 10))
    assert found is not None
    assert (found.error, found.lack) == (None, ALL_ALIKE)
    assert share_bounds(found) == pytest.approx(wilson(10 * value, 10))


def test_an_error_is_never_written_as_zero() -> None:
    assert reach_text(known_estimate(0.5, 0.0000012, 30, 99, 99, 99, 99)) == "± 2e-06"
    assert reach_text(known_estimate(0.5, 0.0000012, 30, 99, 99, 99, 99), ".1%") == "± 0.0002%"
    assert reach_text(known_estimate(0.5, 0.02, 30, 99, 99, 99, 99), ".1%") == "± 4.1%"


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 30, 121])
def test_t_is_that_of_scipy(degrees: int) -> None:
    for chance in (0.5, 0.05, 0.002, 1e-6):
        value = float(stats.t.ppf(1 - chance / 2, degrees))
        assert t_quantile(chance, degrees) == pytest.approx(value, rel=1e-8)
        assert t_chance(-value, degrees) == pytest.approx(chance, rel=1e-6)


@given(st.lists(st.tuples(st.floats(-3, 3), st.integers(3, 40)), max_size=20))
def test_what_is_told_apart_is_what_benjamini_and_hochberg_reject(drawn: list[tuple[float, int]]) -> None:
    found = {at: known_estimate(mean, 0.5, degrees, 99, 40, 40, 50.0) for at, (mean, degrees) in enumerate(drawn)}
    told = told_apart({**found, "unknown": Estimate(9.0, 3, 3, 3, lack=TOO_FEW), "none": None})  # type: ignore[dict-item]
    chances = np.array([one.chance for one in found.values()])
    rejected = {
        at for at, chance in enumerate(stats.false_discovery_control(chances) if drawn else ()) if chance < 0.05 - 1e-9
    }
    assert set(told) >= rejected
    for at, (low, high) in told.items():
        assert low > 0 or high < 0
        assert high - low >= (found[at].high or 0) - (found[at].low or 0) - 1e-9


def test_known_intervals() -> None:
    """1,782 tries of which 58.5 % hit: 56 to 61 %; and 0 of 10, where share +- error would give nothing."""
    assert wilson(1042, 1782) == pytest.approx((0.5617, 0.6074), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.27754), abs=1e-5)
    assert wilson(5, 10) == pytest.approx((0.23659, 0.76341), abs=1e-5)
    assert wilson(0, 0) is None


@pytest.mark.parametrize("hits", [-1, 11, float("nan")])
def test_hits_lie_from_none_to_all(hits: float) -> None:
    with pytest.raises(UsageError, match="hits of 10"):
        wilson(hits, 10)


def table(count: int) -> None:
    """Print coverage and power of each cell that has an error, and the range of each forecaster."""
    asked = ((1, 1), (5, 1), (10, 1), (10, 5), (10, 10))
    for forecaster in FORECASTERS:
        found = []
        for size, often in product(product((8, 50, 400), (60, 120, 250, 500)), asked):
            cell = Cell(*size, *often)
            draws = max(100, min(count, count * 20_000 // (cell.names * cell.sessions)))
            if (one := coverage(forecaster, cell, draws)) is not None:
                found.append(one)
                print(forecaster, *cell, draws, *(figure and f"{figure:.3f}" for figure in one), flush=True)
        for name in ("all", "own"):
            values = [figure for one in found if (figure := getattr(one, name)) is not None]
            if values:
                print(forecaster, name, *np.quantile(values, (0, 0.1, 0.5, 0.9, 1)).round(3), flush=True)


if __name__ == "__main__":
    table(int(sys.argv[1]))
