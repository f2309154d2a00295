"""The calibration table: how often forecasts of each size came true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.points import probability
from chordesk.tools.scoring.wilson import ShareInterval, wilson

BUCKETS = 10


@dataclass(frozen=True, slots=True)
class CalibrationRow:
    """Forecasts from low up to high (the last one with it): how many, their mean, the share that came true, and its
    interval as if each were independent, which those of one date are not."""

    low: float
    high: float
    n: int
    forecast: float
    rate: float
    interval: ShareInterval


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
    return CalibrationRow(at / buckets, (at + 1) / buckets, n, forecast, hits / n, interval)
