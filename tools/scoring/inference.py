"""Errors of means whose values overlap in time and share sessions and names, and what holds for many at once.

Time: the deviations are summed by date, and the long-run variance of these sums is the mean of their first squared
cosine coefficients, with one degree of freedom each for Student's t (equal-weighted cosines; Mueller 2004; Lazarus,
Lewis, Stock and Watson 2018). Names: what the values of one name share beyond that overlap is added (two ways;
Cameron, Gelbach and Miller 2011; Thompson 2011). `tests/tools/scoring/test_inference.py` has the coverage.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

from chordesk.models.errors import UsageError

LEVEL, Z = 0.95, 1.959964
# Below these there is no error: fewer values, dates, or spans of an outcome that do not overlap.
LEAST_VALUES, LEAST_DATES, LEAST_SPANS = 30, 10, 5
_LEAST_COSINES = 3
TOO_FEW, ALL_ALIKE = "too few", "all alike"

Key = TypeVar("Key", bound=Hashable)


class Observation(NamedTuple):
    """A value with the day on which it was drawn and the day from which its outcome is known, both as ordinals or as
    numbers of sessions, and the name that it is of."""

    value: float
    day: int
    until: int
    name: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of n values on so many dates, which are so many spans of an outcome without overlap. error, low, high:
    standard error and 95 % bounds by Student's t with so many degrees; effective: independent values with as wide an
    interval; all None with the reason in `lack`."""

    mean: float
    n: int
    dates: int
    spans: float
    effective: float | None = None
    error: float | None = None
    degrees: int | None = None
    low: float | None = None
    high: float | None = None
    lack: str = ""

    def bounds(self, level: float = LEVEL) -> tuple[float, float] | None:
        if self.error is None or self.degrees is None:
            return None
        reach = t_quantile(1 - level, self.degrees) * self.error
        return self.mean - reach, self.mean + reach

    @property
    def chance(self) -> float:
        if self.error is None or self.degrees is None:
            return 1.0
        return t_chance(self.mean / self.error, self.degrees)


def reach_text(found: Estimate, style: str = ".4f") -> str:
    """Return half of the 95 % interval, never as a zero, or why there is none: ± 0.0040, or too few."""
    if found.error is None or found.high is None:
        return f"{found.lack}, n {found.n:,}"
    reach = found.high - found.mean
    text = format(reach, style)
    if not any(digit in "123456789" for digit in text):
        text = f"{100 * reach:.1g}%" if style.endswith("%") else f"{reach:.1g}"
    return f"± {text}"


def known_estimate(
    mean: float, error: float, degrees: int, n: int, dates: int, spans: float, effective: float
) -> Estimate:
    reach = t_quantile(1 - LEVEL, degrees) * error
    return Estimate(mean, n, dates, spans, effective, error, degrees, mean - reach, mean + reach)


def estimate(observations: Iterable[Observation]) -> Estimate | None:
    """Return the weighted mean with its error; None without a value."""
    rows = list(observations)
    if not rows:
        return None
    days = sorted({row.day for row in rows})
    place_of = {day: at for at, day in enumerate(days)}
    places, weights = [place_of[row.day] for row in rows], [row.weight for row in rows]
    total, n = math.fsum(weights), len(rows)
    mean = math.fsum(row.weight * row.value for row in rows) / total
    by_date = [0.0] * len(days)
    for place, weight in zip(places, weights, strict=True):
        by_date[place] += weight
    # Over how many dates an outcome spans, its own included: what nine in ten do not exceed.
    spanned = sorted(max(1, bisect.bisect_left(days, row.until) - place_of[row.day]) for row in rows)
    overlap = spanned[math.ceil(0.9 * (n - 1))]
    dates = total**2 / math.fsum(weight**2 for weight in by_date)
    spans = dates / overlap
    if n < LEAST_VALUES or len(days) < LEAST_DATES or spans < LEAST_SPANS:
        return Estimate(mean, n, len(days), spans, lack=TOO_FEW)
    squares = math.fsum(row.weight * (row.value - mean) ** 2 for row in rows)
    # What reads scores of few values has no use for numpy.
    from chordesk.tools.scoring.long_run import variances

    code = {name: at for at, name in enumerate(dict.fromkeys(row.name for row in rows))}
    deviations = [row.weight * (row.value - mean) for row in rows]
    found = Estimate(mean, n, len(days), spans)
    return with_error(
        found,
        squares,
        total,
        variances(
            places, deviations, weights, [code[row.name] for row in rows], by_date, cosines_of(dates, spans), overlap
        ),
    )


def with_error(found: Estimate, squares: float, total: float, variances: tuple[float, int, float, float]) -> Estimate:
    """Return the mean with its error. squares, total: sums of weighted squares of deviations and of weights;
    variances: as of `long_run.variances`."""
    by_date, degrees_by_date, by_name, squared = variances
    whole, n = by_date + by_name, found.n
    if whole <= (1e-9 * max(1.0, abs(found.mean)) * total) ** 2:
        return replace(found, lack=ALL_ALIKE)
    # Satterthwaite (1946): the degrees of a sum of two variances.
    degrees = max(1, int(whole**2 / (by_date**2 / degrees_by_date + squared)))
    error, spread = math.sqrt(whole) / total, squares / total * n / (n - 1)
    effective = min(float(n), spread * (Z / (t_quantile(1 - LEVEL, degrees) * error)) ** 2)
    return known_estimate(found.mean, error, degrees, n, found.dates, found.spans, effective)


def cosines_of(dates: float, spans: float) -> int:
    """Return how many cosines: periods of at least six overlaps, and .41 G^(2/3) against drifts that nobody knows of
    (the rule of Lazarus, Lewis, Stock and Watson)."""
    return max(_LEAST_COSINES, int(min(spans / 3, 0.41 * dates ** (2 / 3))))


def told_apart(found: Mapping[Key, Estimate | None], level: float = LEVEL) -> dict[Key, tuple[float, float]]:
    """Return the bounds of those whose mean is not zero, of all that are looked at together. Of what is returned at
    most one in twenty is false (Benjamini and Hochberg, 1995). The bounds, wider the fewer of many are returned,
    exclude zero (Benjamini and Yekutieli, 2005)."""
    known = {key: one for key, one in found.items() if one is not None and one.error is not None}
    allowed, count = 1 - level, len(known)
    ranked = sorted(known, key=lambda key: known[key].chance)
    passed = max((rank for rank, key in enumerate(ranked, 1) if known[key].chance <= allowed * rank / count), default=0)
    joint = {key: known[key].bounds(1 - allowed * passed / count) for key in ranked[:passed]}
    return {key: one for key, one in joint.items() if one is not None and (one[0] > 0 or one[1] < 0)}


class ShareInterval(NamedTuple):
    """Bounds of a share, 0 to 1."""

    low: float
    high: float


def wilson(hits: float, n: float) -> ShareInterval | None:
    """Return the 95 % bounds for `hits` of n independent tries, both in fractions too; None without a try (Wilson)."""
    if n <= 0:
        return None
    if not 0 <= hits <= n:
        raise UsageError(f"{hits:g} hits of {n:g} tries", remedy="give from 0 to n hits")
    share, square = hits / n, Z * Z
    centre = share + square / (2 * n)
    reach = Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    scale = 1 + square / n
    return ShareInterval(max(0.0, (centre - reach) / scale), min(1.0, (centre + reach) / scale))


def share_bounds(found: Estimate | None) -> ShareInterval | None:
    """Return the bounds of a mean of outcomes from 0 to 1: Wilson's, for the effective number of tries; where all are
    alike, for the spans without overlap."""
    tries = found.spans if found is not None and found.lack == ALL_ALIKE else found.effective if found else None
    if found is None or tries is None:
        return None
    return wilson(min(max(found.mean, 0.0), 1.0) * tries, tries)


def t_chance(value: float, degrees: int) -> float:
    """Return how often |t| is at least this, exact for whole degrees (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan2(abs(value), math.sqrt(degrees))
    cosine = math.cos(angle)
    odd = degrees % 2
    term = total = (cosine if odd else 1.0) if degrees > 1 else 0.0
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    inside = math.sin(angle) * total
    return max(0.0, 1 - (2 / math.pi * (angle + inside) if odd else inside))


@lru_cache(maxsize=4096)
def t_quantile(chance: float, degrees: int) -> float:
    """Return the distance that |t| exceeds with this chance."""
    low, high = 0.0, 2.0
    while t_chance(high, degrees) > chance:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_chance(middle, degrees) > chance else (low, middle)
    return high
