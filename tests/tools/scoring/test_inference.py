"""Errors of overlapping values: coverage and power by simulation, what has no error, what holds for many at once.

`.venv/bin/python -m tests.tools.scoring.test_inference 1000` prints the whole table of docs/decisions/board.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
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

STEP = 0.1  # of a probability from one half
NOISE = 0.015  # standard deviation of a name's daily return beside its market's
FORECASTERS = ("guessing", "persistent", "tilted", "skilled", "persistent and skilled")
SKILLED = ("skilled", "persistent and skilled")


def positions(
    forecaster: str, draws: np.random.Generator, ahead: np.ndarray, betas: np.ndarray, every: int
) -> np.ndarray:
    """Return p - 0.5 by question day and name. tilted: for names that move more than the market, for ever. persistent:
    a side that is kept for a mean of 100 sessions. skilled: by a noisy view of what comes."""
    days, names = ahead.shape
    sides = np.empty(ahead.shape)
    side = draws.choice([-1.0, 1.0], names)
    for day in range(days):
        side = np.where(draws.random(names) < 1 - 0.99**every, -side, side)
        sides[day] = side
    if forecaster == "guessing":
        return draws.normal(0, STEP, ahead.shape)
    if forecaster == "persistent":
        return STEP * sides
    if forecaster == "tilted":
        return np.tile(STEP * np.sign(betas - 1), (days, 1))
    seen = ahead / ahead.std(axis=1, keepdims=True) + draws.normal(0, 4, ahead.shape)
    return STEP / 2 * np.sign(seen + (2 * sides if forecaster == "persistent and skilled" else 0))


def alphas(
    forecaster: str, draws: np.random.Generator, names: int, sessions: int, horizon: int, every: int
) -> list[Observation]:
    """Return the alpha of each question "does this name beat the median over the horizon", asked every so many
    sessions of names that share a market."""
    betas = draws.normal(1, 0.3, names)
    shape = sessions + horizon, names
    returns = draws.normal(0, 0.01, (shape[0], 1)) * betas + draws.normal(0, NOISE, shape)
    prices = np.vstack([np.zeros(names), np.cumsum(returns, axis=0)])
    days = np.arange(0, sessions, every)
    ahead = prices[days + horizon] - prices[days]
    ahead -= np.median(ahead, axis=1, keepdims=True)
    outcomes = (ahead > 0).astype(float)
    given = 0.5 + positions(forecaster, draws, ahead, betas, every)
    points = (0.5 - outcomes) ** 2 - (given - outcomes) ** 2
    return [
        Observation(float(points[row, name]), int(day), int(day) + horizon, str(name))
        for row, day in enumerate(days)
        for name in range(names)
    ]


def drawn(forecaster: str, cell: tuple[int, int, int, int], count: int) -> list[Estimate]:
    draws = np.random.default_rng(sum(cell) + len(forecaster))
    found = (estimate(alphas(forecaster, draws, *cell)) for _ in range(count))
    return [one for one in found if one is not None]


def coverage(found: Sequence[Estimate]) -> tuple[float, float] | None:
    """Return how often the interval holds the mean of all draws, and how often it lies above zero; None without an
    error."""
    truth = np.mean([one.mean for one in found])
    bounds = [(one.low, one.high) for one in found if one.low is not None and one.high is not None]
    if not bounds:
        return None
    low, high = np.array(bounds).T
    return float(np.mean((low <= truth) & (truth <= high))), float(np.mean(low > 0))


@pytest.mark.parametrize(
    ("forecaster", "cell"),
    [
        ("persistent", (8, 60, 10, 1)),
        ("persistent", (8, 250, 10, 1)),
        ("tilted", (50, 120, 10, 1)),
        ("guessing", (50, 60, 1, 1)),
        ("skilled", (8, 250, 10, 5)),
        ("persistent and skilled", (50, 120, 5, 1)),
    ],
)
def test_nominal_95_covers_95(forecaster: str, cell: tuple[int, int, int, int]) -> None:
    """Names, sessions, horizon, sessions between questions. With 400 draws the coverage is known to .011."""
    found = coverage(drawn(forecaster, cell, 400 if cell[0] < 50 else 200))
    assert found is not None
    assert 0.925 <= found[0] <= 0.985


def test_skill_shows_and_its_absence_does_not() -> None:
    skilled, guessing = (coverage(drawn(one, (50, 120, 5, 1), 60)) for one in ("skilled", "guessing"))
    assert skilled is not None
    assert guessing is not None
    assert skilled[1] > 0.9
    assert guessing[1] == 0


def observed(values: Sequence[float], span: int = 1) -> Iterator[Observation]:
    return (Observation(value, day, day + span) for day, value in enumerate(values))


def test_independent_values_have_the_usual_error() -> None:
    """Over many draws the squared error is on average the variance over n."""
    draws = np.random.default_rng(3)
    found = [estimate(observed(draws.normal(0, 2, 100))) for _ in range(400)]
    squares = [one.error**2 for one in found if one is not None and one.error is not None]
    assert np.mean(squares) == pytest.approx(4 / 100, rel=0.06)
    effective = [one.effective for one in found if one is not None and one.effective is not None]
    assert 50 < np.median(effective) <= 100


def test_copies_within_a_date_prove_nothing() -> None:
    values = np.random.default_rng(4).normal(size=40)
    once, often = estimate(observed(values)), estimate(one for one in observed(values) for _ in range(9))
    assert once is not None
    assert often is not None
    assert often.n == 9 * once.n
    assert often.error == pytest.approx(once.error)


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


def test_what_a_name_shares_widens_the_interval() -> None:
    """Ten names of which each is good or bad for ever: the error by session alone would be a tenth of it."""
    draws = np.random.default_rng(6)
    quality = draws.normal(size=10)
    values = quality + draws.normal(size=(60, 10))
    rows = [Observation(values[day, name], day, day + 1, str(name)) for day, name in product(range(60), range(10))]
    by_name, apart = estimate(rows), estimate(row._replace(name=str(at)) for at, row in enumerate(rows))
    assert by_name is not None
    assert apart is not None
    assert by_name.error is not None
    assert apart.error is not None
    assert by_name.error == pytest.approx(quality.std(ddof=1) / 10**0.5, rel=0.25)
    assert by_name.error > 4 * apart.error
    assert by_name.degrees is not None
    assert by_name.degrees <= 10


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


def test_without_a_value_there_is_none() -> None:
    assert estimate([]) is None


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


def test_of_a_hundred_without_skill_none_is_told_in_most_draws() -> None:
    draws = np.random.default_rng(8)
    false = sum(
        bool(told_apart({at: estimate(observed(draws.normal(size=60))) for at in range(100)})) for _ in range(40)
    )
    assert false <= 5


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
    """Print coverage and power of each cell that has an error."""
    asked = ((1, 1), (5, 1), (10, 1), (10, 10))
    cells = [(*size, *often) for size, often in product(product((8, 50, 400), (60, 120, 500)), asked)]
    for forecaster, cell in product(FORECASTERS, cells):
        draws = max(60, min(count, count * 20_000 // (cell[0] * cell[1])))
        found = coverage(drawn(forecaster, cell, draws))
        print(forecaster, *cell, draws, "too few" if found is None else f"{found[0]:.3f} {found[1]:.2f}", flush=True)


if __name__ == "__main__":
    table(int(sys.argv[1]))
