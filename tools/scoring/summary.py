"""Scores of one source over resolved questions: each question counts once, each date is one draw."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chordesk.tools.market.clock import exchange_day
from chordesk.tools.scoring.calibration import CalibrationRow, calibration_table
from chordesk.tools.scoring.errors import DatedMean, dated_mean
from chordesk.tools.scoring.points import alpha, brier, log_score

CODE = "code"  # author of what no model made


@dataclass(frozen=True, slots=True)
class ScoredForecast:
    """A forecast of a resolved question. source: what made it; author: label of its model; at and known: market time of
    the forecast, and from which the outcome is known. label and evidence: of a judgement that stated no probability,
    and the resolved questions that its probability rests on; evidence is None where it was stated."""

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
        """Return the number of resolved questions, which is n of every mean."""
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
