"""A mean with the error of its dates: forecasts of one date share its market, so they count as one draw."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from chordesk.tools.scoring.student import t_95


@dataclass(frozen=True, slots=True)
class DatedMean:
    """Mean of n values on so many dates, and its standard error by date; None with fewer than two dates."""

    mean: float
    error: float | None
    n: int
    dates: int

    @property
    def lower(self) -> float | None:
        """Return the lower 95 % bound, by Student's t with one degree of freedom less than there are dates."""
        return None if self.error is None else self.mean - t_95(self.dates - 1) * self.error

    @property
    def upper(self) -> float | None:
        """Return the upper 95 % bound alike."""
        return None if self.error is None else self.mean + t_95(self.dates - 1) * self.error


def dated_mean(values: Iterable[tuple[date, float]]) -> DatedMean | None:
    """Return the mean over all values with its error by date; None without a value.

    The cluster-robust error of a mean: the root of G / (G - 1) times the sum of squared sums of deviations by date,
    over n (Liang and Zeger, 1986, with the usual correction for G dates).
    """
    by_date: dict[date, list[float]] = defaultdict(list)
    for day, value in values:
        by_date[day].append(value)
    n, dates = sum(map(len, by_date.values())), len(by_date)
    if n == 0:
        return None
    mean = math.fsum(math.fsum(group) for group in by_date.values()) / n
    if dates < 2:
        return DatedMean(mean, None, n, dates)
    squares = math.fsum(math.fsum(value - mean for value in group) ** 2 for group in by_date.values())
    return DatedMean(mean, math.sqrt(squares * dates / (dates - 1)) / n, n, dates)
