"""What the universe itself came to: bought once and held, or kept at equal weight. Without costs, at closes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from chordesk.tools.backtests.closes import CloseTable


def buy_and_hold(closes: CloseTable, capital: float) -> list[float]:
    """Return the value on each day of a purchase at equal weight at the first day's close. A name that stops trading
    stays at its last close; one without a close on the first day is not bought."""
    filled = closes.carried()
    bought = np.isfinite(filled[0])
    if not bought.any():
        return [capital] * len(closes.days)
    growth = filled[:, bought] / filled[0, bought]
    return [float(capital * value) for value in growth.mean(axis=1)]


def equal_weight(closes: CloseTable, capital: float) -> list[float]:
    """Return the value on each day of holding every name at the same weight, restored at each close. A name counts
    from one day to the next when it has a close by both."""
    filled = closes.carried()
    values = [capital]
    for before, after in pairwise(filled):
        returns = after / before - 1
        known = returns[np.isfinite(returns)]
        values.append(values[-1] * (1 + (float(known.mean()) if len(known) else 0.0)))
    return values


def drawdown(values: Sequence[float | None]) -> float:
    """Return the deepest fall from an earlier high, as a share of that high; 0 for a curve that never fell."""
    high, deepest = 0.0, 0.0
    for value in values:
        if value is None:
            continue
        high = max(high, value)
        deepest = max(deepest, 1 - value / high) if high > 0 else deepest
    return deepest
