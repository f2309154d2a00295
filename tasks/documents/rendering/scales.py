"""The arithmetic of drawings: from values to points, and round numbers for the lines between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Scale(NamedTuple):
    """A line from values to points. low, high: values; start, end: their points."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def scale(values: Sequence[float], start: float, end: float, margin: float = 0.06) -> Scale:
    """Return a scale with a margin around the values, as a share of their range; values that are all alike get one."""
    low, high = min(values), max(values)
    room = (high - low) * margin or max(abs(high), 1.0) * margin
    return Scale(low - room, high + room, start, end)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most so many round numbers from low to high: steps of 1, 2, 2.5 or 5 times a power of ten."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= rough)
    first = math.ceil(low / step)
    return [round((first + at) * step, 10) for at in range(most + 1) if (first + at) * step <= high]


def number(value: float) -> str:
    """Return a coordinate in as few characters as a picture needs."""
    return f"{value:.1f}".rstrip("0").rstrip(".")
