"""Heat: the share of equity that a bad day of each holding puts at risk, alone and together; the desk's convention."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from chordesk.models.errors import UsageError

Floats = npt.NDArray[np.float64]
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
