"""Agreement of voices against what chance gives, and what their disagreement earns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chordesk.models.errors import UsageError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Voices on one side of a baseline. n: those that take a side; share: of the larger side; by_chance: that share's
    mean over coin flips of n."""

    n: int
    share: float
    by_chance: float

    @property
    def corrected(self) -> float | None:
        """Return (C - E) / (1 - E): 0 by chance, 1 unanimous, below 0 for more division; None for a single voice."""
        return (self.share - self.by_chance) / (1 - self.by_chance) if self.by_chance < 1 else None


@dataclass(frozen=True, slots=True)
class DiversityIdentity:
    """(mean p - o)^2 = mean (p_i - o)^2 - V: the crowd, its voices on average, and what disagreement earns."""

    crowd: float
    voices: float
    diversity: float


def majority_by_chance(n: int) -> float:
    """Return the mean share of the larger side of n coin flips; 1 for one."""
    if n < 1:
        raise UsageError(f"{n} voices have no majority", remedy="give 1 or more")
    return float(sum(max(k, n - k) * math.comb(n, k) for k in range(n + 1)) / (n * 2**n))


def agreement(forecasts: Iterable[float], baseline: float) -> Agreement | None:
    """Return the agreement of forecasts above or below a baseline; one on it takes no side. None without a side."""
    sides = [forecast > baseline for forecast in forecasts if forecast != baseline]
    if not sides:
        return None
    return Agreement(len(sides), max(sum(sides), len(sides) - sum(sides)) / len(sides), majority_by_chance(len(sides)))


def agreements(
    forecasts: Mapping[str, float], factions: Mapping[str, str], baseline: float
) -> tuple[Agreement | None, dict[str, Agreement | None]]:
    """Return the agreement of all voices on a question and that within each faction; both are by voice."""
    names = sorted({factions[voice] for voice in forecasts})
    within = {name: [p for voice, p in forecasts.items() if factions[voice] == name] for name in names}
    return (
        agreement(forecasts.values(), baseline),
        {name: agreement(members, baseline) for name, members in within.items()},
    )


def consensus(found: Iterable[Agreement | None]) -> float | None:
    """Return (C - E) / (1 - E) over several questions, C and E as means over them; None where all are single voices."""
    known = [one for one in found if one is not None]
    room = sum(1 - one.by_chance for one in known)
    return sum(one.share - one.by_chance for one in known) / room if room > 0 else None


def diversity(forecasts: Sequence[float]) -> float:
    """Return V = mean (p_i - mean p)^2, in squared probability."""
    mean = math.fsum(forecasts) / len(forecasts)
    return math.fsum((forecast - mean) ** 2 for forecast in forecasts) / len(forecasts)


def effective_voices(n: int, correlation: float) -> float | None:
    """Return n / (1 + (n - 1) r), r the mean correlation of errors; None for an r that no n voices can have."""
    spread = 1 + (n - 1) * correlation
    return n / spread if spread > 0 else None


def error_correlation(errors: Floats) -> float | None:
    """Return the mean correlation between voices from errors p - o, voices x questions, all known.

    A voice that never changes its error has no correlation and is left out; None with fewer than two others or three
    questions.
    """
    if errors.ndim != 2 or errors.shape[1] < 3:
        return None
    moving = errors[errors.std(axis=1) > 1e-12]
    n = len(moving)
    if n < 2:
        return None
    matrix = np.corrcoef(moving)
    return float((matrix.sum() - n) / (n * (n - 1)))
