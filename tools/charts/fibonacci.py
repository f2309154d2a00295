"""Fibonacci retracements and extensions of the largest move between two swings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from chordesk.tools.charts.swings import Swing

RETRACEMENTS = (0.236, 0.382, 0.5, 0.618, 0.786)
EXTENSIONS = (1.272, 1.618, 2.618)


class FibLevel(NamedTuple):
    """A level at a ratio of the move, with its id, such as F61.8 for a retracement or E161.8 for an extension."""

    id: str
    ratio: float
    price: float


class Fibonacci(NamedTuple):
    """Levels of the move from one swing to the other. direction: up when the low came first."""

    direction: Literal["up", "down"]
    high: Swing
    low: Swing
    retracements: tuple[FibLevel, ...]
    extensions: tuple[FibLevel, ...]


def fibonacci(swings: Sequence[Swing]) -> Fibonacci | None:
    """Return the levels of the move between the highest high and the lowest low swing, None without one of each.

    A retracement is measured back from the move's end, an extension on from its start: of a rise from low to high,
    high - ratio * (high - low) and low + ratio * (high - low); of a fall the reverse (Murphy, Technical Analysis of the
    Financial Markets, 1999, chapters 4 and 13). Of equal swings the latest counts. An extension that is not above zero
    is left out: there is no such price.
    """
    highs, lows = ([one for one in swings if one.kind == kind] for kind in ("high", "low"))
    if not highs or not lows:
        return None
    high = max(highs, key=lambda one: (one.price, one.at))
    low = min(lows, key=lambda one: (one.price, -one.at))
    up, height = low.at < high.at, high.price - low.price
    end, start, sign = (high.price, low.price, 1) if up else (low.price, high.price, -1)
    back = tuple(_level("F", ratio, end - sign * ratio * height) for ratio in RETRACEMENTS)
    on = tuple(_level("E", ratio, start + sign * ratio * height) for ratio in EXTENSIONS)
    return Fibonacci("up" if up else "down", high, low, back, tuple(one for one in on if one.price > 0))


def _level(letter: str, ratio: float, price: float) -> FibLevel:
    return FibLevel(f"{letter}{ratio * 100:.1f}", ratio, price)
