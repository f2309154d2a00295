"""Sizes of several positions together: Kelly on a portfolio, and the heat of holdings. Nothing here knows a market or
an account."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chordesk.models.errors import UsageError
from chordesk.tools.position_sizing import FRACTION, checked_fraction
from chordesk.tools.scoring.statistics import probability

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


ATRS_AT_RISK = 2


def share_heat(value: float, atr14: float, price: float, equity: float) -> float:
    """Return value * 2 * ATR14 / price / equity of a holding of shares; a short one has heat as a long one has."""
    return abs(value) * ATRS_AT_RISK * atr14 / _positive(price, "price") / _positive(equity, "equity")


def contract_heat(stake: float, equity: float) -> float:
    """Return the stake over equity: a contract can lose all that was paid for it."""
    return stake / _positive(equity, "equity")


def correlated_heat(heats: Floats, correlation: Floats) -> float:
    """Return sqrt(h' C h) for n heats and their n x n correlation: their sum when all move as one."""
    return math.sqrt(max(0.0, float(heats @ correlation @ heats)))


def effective_bets(heats: Floats, correlation: Floats) -> float | None:
    """Return (sum h)^2 / h' C h, the number of equal independent bets of that spread; None without heat."""
    spread = float(heats @ correlation @ heats)
    return float(heats.sum()) ** 2 / spread if spread > 0 else None


def _positive(value: float, name: str) -> float:
    if not value > 0:
        raise UsageError(f"{name} {value:g} is not above 0", remedy=f"heat needs the {name}; leave it out as missing")
    return value
