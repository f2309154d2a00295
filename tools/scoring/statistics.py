"""Statistics of forecasts: points, the calibration table, one score a source."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple, Self

from chordesk.models.errors import UsageError
from chordesk.tools.market.clock import day_of
from chordesk.tools.scoring.inference import Estimate, Observation, estimate, share_bounds

# One forecast of 0 or 1 that fails would outweigh all others without it.
LEAST, MOST = 0.01, 0.99


def probability(value: float, name: str = "probability") -> float:
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


CODE = "code"  # author of what no model made


@dataclass(frozen=True, slots=True)
class ScoredForecast:
    """A forecast of a resolved question."""

    source: str  # what made it
    question: str
    # at, known: market time of the forecast, and from which the outcome is known
    at: dt.datetime
    known: dt.datetime
    probability: float
    baseline: float
    outcome: float
    author: str = CODE  # label of its model
    run: str = ""
    round: int = 0
    label: str = ""
    evidence: int | None = None
    # what the question is about, by default itself alone. A judgement that states no probability, such as BUY high, has
    # it as its label, the baseline as its probability until `walked` gives it another, and as evidence the number of
    # resolved questions on which that rests.
    name: str = ""  # a symbol: then its days are those of its exchange
    alike: int = 1  # how many of a day were the same but for their time, of which this is the first


BUCKETS = 10


@dataclass(frozen=True, slots=True)
class CalibrationRow:
    """Forecasts from low up to high (the last one with it): how many, their mean, and the share that came true with its
    95 % bounds, None where they are too few."""

    low: float
    high: float
    n: int
    forecast: float
    rate: float
    least: float | None
    most: float | None


def calibration_table(forecasts: Sequence[ScoredForecast], buckets: int = BUCKETS) -> list[CalibrationRow]:
    """Return the rows of the buckets that have a forecast, lowest first."""
    if buckets < 1:
        raise UsageError(f"{buckets} buckets", remedy="give 1 or more")
    grouped: list[list[ScoredForecast]] = [[] for _ in range(buckets)]
    for one in forecasts:
        probability(one.outcome, "outcome")
        grouped[min(int(probability(one.probability) * buckets + 1e-9), buckets - 1)].append(one)
    return [_row(at, buckets, group) for at, group in enumerate(grouped) if group]


def _row(at: int, buckets: int, group: list[ScoredForecast]) -> CalibrationRow:
    rate = mean_of(group, lambda one: one.outcome)
    assert rate is not None, "a row has at least one forecast"
    forecast = math.fsum(one.probability for one in group) / len(group)
    least, most = share_bounds(rate) or (None, None)
    return CalibrationRow(at / buckets, (at + 1) / buckets, len(group), forecast, rate.mean, least, most)


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of a source: means over questions, and its calibration."""

    forecasts: int
    brier: Estimate
    log: Estimate
    alpha: Estimate
    rate: Estimate  # share that came true
    calibration: list[CalibrationRow]

    @property
    def questions(self) -> int:
        return self.brier.n


def score(forecasts: Sequence[ScoredForecast]) -> Score | None:
    """Return the scores; None without a forecast. Several forecasts of one question count as one by the mean of their
    points; its date is that of the first, and the calibration table has the first alone, before later ones drew on what
    became known."""
    groups = [_Group.of(group) for group in _by_question(forecasts)]
    brier_mean = _mean(groups, lambda one: brier(one.probability, one.outcome))
    log_mean = _mean(groups, lambda one: log_score(one.probability, one.outcome))
    alpha_mean = _mean(groups, lambda one: alpha(one.probability, one.baseline, one.outcome))
    rate = _mean(groups, lambda one: one.outcome)
    if brier_mean is None or log_mean is None or alpha_mean is None or rate is None:
        return None
    count = sum(one.alike for one in forecasts)
    return Score(count, brier_mean, log_mean, alpha_mean, rate, calibration_table([group.first for group in groups]))


def mean_of(forecasts: Iterable[ScoredForecast], value: Callable[[ScoredForecast], float]) -> Estimate | None:
    """Return the mean of a value over questions, each of the date of its first forecast."""
    return _mean(map(_Group.of, _by_question(forecasts)), value)


class _Group(NamedTuple):
    """The forecasts of one question, the first of them, and the days of that and of the outcome."""

    forecasts: Sequence[ScoredForecast]
    first: ScoredForecast
    day: int
    until: int
    name: str

    @classmethod
    def of(cls, group: Sequence[ScoredForecast]) -> Self:
        first = min(group, key=lambda one: (one.at, one.round)) if len(group) > 1 else group[0]
        known = max(one.known for one in group) if len(group) > 1 else first.known
        day, until = (day_of(at, first.name).toordinal() for at in (first.at, known))
        return cls(group, first, day, until, group[0].name or first.question)

    def mean(self, value: Callable[[ScoredForecast], float]) -> float:
        if len(self.forecasts) == self.first.alike == 1:
            return value(self.first)
        values = (repeat(value(one), one.alike) for one in self.forecasts)
        return math.fsum(chain.from_iterable(values)) / sum(one.alike for one in self.forecasts)


def _mean(groups: Iterable[_Group], value: Callable[[ScoredForecast], float]) -> Estimate | None:
    return estimate(Observation(group.mean(value), group.day, group.until, group.name) for group in groups)


def _by_question(forecasts: Iterable[ScoredForecast]) -> Iterable[list[ScoredForecast]]:
    grouped: dict[str, list[ScoredForecast]] = defaultdict(list)
    for one in forecasts:
        grouped[one.question].append(one)
    return grouped.values()
