"""The arithmetic of drawings: from values to points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chordesk.tools.charts.scale import price_ticks

_LINES = 5


class Axis(NamedTuple):
    """A line from values to points. low, high: values; start, end: their points."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def axis(values: Sequence[float], start: float, end: float, margin: float = 0.06) -> Axis:
    """Return an axis with a margin around the values, as a share of their range; values that are all alike get one."""
    low, high = min(values), max(values)
    room = (high - low) * margin or max(abs(high), 1.0) * margin
    return Axis(low - room, high + room, start, end)


def grid(up: Axis, left: int, right: int) -> Iterator[str]:
    """Yield a line across the drawing at each of a few round values, with the value at its end."""
    values, digits = price_ticks(up.low, up.high, _LINES)
    for value in values:
        y = number(up.at(value))
        yield f'<path class="grid" d="M{left} {y}H{right}"/>'
        yield f'<text class="axis" x="{right + 5}" y="{y}">{value:,.{digits}f}</text>'


def number(value: float) -> str:
    """Return a coordinate in as few characters as a picture needs."""
    return f"{value:.1f}".rstrip("0").rstrip(".")
