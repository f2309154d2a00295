"""Kelly stakes on several bets: l * inverse(S) * m, long only and within limits, and the next bet given those held.

m is the expected profit per unit staked, S its covariance. Second order in the returns (Thorp, The Kelly Criterion,
2006): good where stakes are small, which a fraction of Kelly makes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.points import probability
from chordesk.tools.stakes.kelly import FRACTION, checked_fraction

_SWEEPS = 2000
_SETTLED = 1e-12
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UnitReturn:
    """Profit per unit staked: its mean and its variance."""

    mean: float
    variance: float


def binary_return(belief: float, price: float) -> UnitReturn:
    """Return (p - q) / q and p (1 - p) / q^2 of a contract that pays 1, bought at the effective price q."""
    probability(belief)
    if not 0 < price < 1:
        raise UsageError(f"price {price:g} is not between 0 and 1", remedy="give what a contract of 1 costs")
    return UnitReturn((belief - price) / price, belief * (1 - belief) / price**2)


def covariance(variances: Floats, correlation: Floats) -> Floats:
    """Return S, n x n, from n variances and the n x n correlation of the returns."""
    spread = np.sqrt(variances)
    return np.asarray(correlation * np.outer(spread, spread), dtype=np.float64)


def portfolio_kelly(
    means: Floats, cov: Floats, *, fraction: float = FRACTION, most_each: float = 1.0, most_total: float = 1.0
) -> Floats:
    """Return n shares of the bankroll, each 0 to `most_each`, `most_total` together.

    The long-only best of f'm - f'Sf / 2l by ascent one bet at a time, so that two bets on the same thing, for which S
    has no inverse, share one stake. A sum above the total is scaled down.
    """
    checked_fraction(fraction)
    _check(means, cov)
    stakes = np.zeros(len(means))
    for _ in range(_SWEEPS):
        before = stakes.copy()
        for k in range(len(stakes)):
            others = cov[k] @ stakes - cov[k, k] * stakes[k]
            stakes[k] = min(max((fraction * means[k] - others) / cov[k, k], 0.0), most_each)
        if np.abs(stakes - before).max(initial=0.0) < _SETTLED:
            break
    total = float(stakes.sum())
    return stakes * (most_total / total) if total > most_total else stakes


def next_bet(
    unit: UnitReturn, with_held: Floats, held: Floats, *, fraction: float = FRACTION, heat_left: float = math.inf
) -> float:
    """Return x = l * max(0, (m - sum_j s_j f_j) / s^2) for one more bet, at most the heat that is left.

    with_held: n covariances of its return with those held; held: their n shares of the bankroll.
    """
    checked_fraction(fraction)
    if not unit.variance > 0:
        raise UsageError("a bet without variance has no Kelly stake", remedy="give a belief above 0 and below 1")
    edge = (unit.mean - float(with_held @ held)) / unit.variance
    return min(fraction * max(0.0, edge), max(0.0, heat_left))


def _check(means: Floats, cov: Floats) -> None:
    if cov.shape != (len(means), len(means)):
        raise UsageError(f"{len(means)} means have a covariance of shape {cov.shape}", remedy="give one row a bet")
    if not (np.isfinite(means).all() and np.isfinite(cov).all()):
        raise UsageError("a mean or covariance is missing", remedy="leave bets without a figure out")
    if (np.diag(cov) <= 0).any():
        raise UsageError("a bet without variance has no Kelly stake", remedy="give beliefs above 0 and below 1")
