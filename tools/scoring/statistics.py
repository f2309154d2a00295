"""Statistics of forecasts: points, means with the error of their dates, intervals, the calibration table, one score a
source."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from chordesk.models.errors import UsageError
from chordesk.tools.market.clock import exchange_day

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


Z = 1.96  # 95 %


class ShareInterval(NamedTuple):
    """Bounds of a share, 0 to 1."""

    low: float
    high: float


def wilson(hits: float, n: int, z: float = Z) -> ShareInterval | None:
    """Return the bounds for `hits` of n independent tries, hits in fractions too; None without a try."""
    if n <= 0:
        return None
    if not 0 <= hits <= n:
        raise UsageError(f"{hits:g} hits of {n} tries", remedy="give from 0 to n hits")
    share, square = hits / n, z * z
    centre = share + square / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    scale = 1 + square / n
    return ShareInterval(max(0.0, (centre - reach) / scale), min(1.0, (centre + reach) / scale))


# By degrees of freedom, from 1.
_FIRST = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
)  # fmt: skip
_NORMAL = 1.959964


def t_95(degrees: int) -> float:
    """Return the two-sided 95 % quantile for 1 or more degrees of freedom, right to 0.001.

    Above 20 by its expansion in 1 / degrees (Abramowitz and Stegun, 26.7.5).
    """
    if degrees <= len(_FIRST):
        return _FIRST[degrees - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


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


BUCKETS = 10


@dataclass(frozen=True, slots=True)
class CalibrationRow:
    """Forecasts from low up to high (the last one with it): how many, their mean, and the share that came true with its
    95 % interval as if each were independent, which those of one date are not."""

    low: float
    high: float
    n: int
    forecast: float
    rate: float
    least: float
    most: float


def calibration_table(points: Sequence[tuple[float, float]], buckets: int = BUCKETS) -> list[CalibrationRow]:
    """Return the rows of the buckets that have a forecast, from (forecast, outcome), lowest first."""
    if buckets < 1:
        raise UsageError(f"{buckets} buckets", remedy="give 1 or more")
    grouped: list[list[tuple[float, float]]] = [[] for _ in range(buckets)]
    for forecast, outcome in points:
        probability(outcome, "outcome")
        grouped[min(int(probability(forecast) * buckets + 1e-9), buckets - 1)].append((forecast, outcome))
    return [_row(at, buckets, group) for at, group in enumerate(grouped) if group]


def _row(at: int, buckets: int, group: list[tuple[float, float]]) -> CalibrationRow:
    n = len(group)
    hits = min(float(n), sum(outcome for _, outcome in group))
    interval = wilson(hits, n)
    assert interval is not None, "a row has at least one forecast"
    forecast = sum(point for point, _ in group) / n
    return CalibrationRow(at / buckets, (at + 1) / buckets, n, forecast, hits / n, *interval)


CODE = "code"  # author of what no model made


@dataclass(frozen=True, slots=True)
class ScoredForecast:
    """A forecast of a resolved question. source: what made it; author: label of its model; at and known: market time of
    the forecast, and from which the outcome is known.

    A judgement that states no probability, such as BUY high, has it as its label, the baseline as its probability until
    `walked` gives it another, and as evidence the number of resolved questions on which that rests.
    """

    source: str
    question: str
    at: dt.datetime
    known: dt.datetime
    probability: float
    baseline: float
    outcome: float
    author: str = CODE
    run: str = ""
    round: int = 0
    label: str = ""
    evidence: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of a source: means over questions with errors by date, and its calibration."""

    forecasts: int
    brier: DatedMean
    log: DatedMean
    alpha: DatedMean
    calibration: list[CalibrationRow]

    @property
    def questions(self) -> int:
        return self.brier.n


def score(forecasts: Sequence[ScoredForecast]) -> Score | None:
    """Return the scores; None without a forecast.

    Several forecasts of one question count as one by the mean of their points; its date is that of the first, and the
    calibration table has the first alone, before later ones drew on what became known.
    """
    groups = list(_by_question(forecasts))
    brier_mean = _mean(groups, lambda one: brier(one.probability, one.outcome))
    log_mean = _mean(groups, lambda one: log_score(one.probability, one.outcome))
    alpha_mean = _mean(groups, lambda one: alpha(one.probability, one.baseline, one.outcome))
    if brier_mean is None or log_mean is None or alpha_mean is None:
        return None
    firsts = [min(group, key=lambda one: (one.at, one.round)) for group in groups]
    table = calibration_table([(one.probability, one.outcome) for one in firsts])
    return Score(len(forecasts), brier_mean, log_mean, alpha_mean, table)


def mean_of(forecasts: Iterable[ScoredForecast], value: Callable[[ScoredForecast], float]) -> DatedMean | None:
    """Return the mean of a value over questions with its error by the date of each question's first forecast."""
    return _mean(_by_question(forecasts), value)


def _mean(groups: Iterable[Sequence[ScoredForecast]], value: Callable[[ScoredForecast], float]) -> DatedMean | None:
    return dated_mean(
        (exchange_day(min(one.at for one in group)), math.fsum(map(value, group)) / len(group)) for group in groups
    )


def _by_question(forecasts: Iterable[ScoredForecast]) -> Iterable[list[ScoredForecast]]:
    grouped: dict[str, list[ScoredForecast]] = defaultdict(list)
    for one in forecasts:
        grouped[one.question].append(one)
    return grouped.values()
