"""Points of one forecast: Brier score, log score, and alpha against a baseline. Outcomes lie from 0 (no) to 1 (yes)."""

from __future__ import annotations

import math

from chordesk.models.errors import UsageError

# One forecast of 0 or 1 that fails would outweigh all others without it.
LEAST, MOST = 0.01, 0.99


def probability(value: float, name: str = "probability") -> float:
    """Return the value; raise UsageError unless it lies from 0 to 1."""
    if not 0 <= value <= 1:
        raise UsageError(f"{name} {value:g} is not from 0 to 1", remedy="give a number from 0 to 1, 0.65 for 65 %")
    return value


def brier(forecast: float, outcome: float) -> float:
    """Return (p - o)^2, 0 (right) to 1 (wrong); 0.25 for 0.5 at any certain outcome (Brier, 1950)."""
    return (probability(forecast) - probability(outcome, "outcome")) ** 2


def log_score(forecast: float, outcome: float) -> float:
    """Return o ln p + (1 - o) ln(1 - p), at most 0, higher is better, with p clipped to .01-.99 (Good, 1952)."""
    clipped = min(max(probability(forecast), LEAST), MOST)
    probability(outcome, "outcome")
    return outcome * math.log(clipped) + (1 - outcome) * math.log(1 - clipped)


def alpha(forecast: float, baseline: float, outcome: float) -> float:
    """Return (q - o)^2 - (p - o)^2, above 0 where the forecast beat the baseline q (a market's price if any)."""
    return brier(baseline, outcome) - brier(forecast, outcome)
