"""The scale of a plot: the pixel of each price and bar, and the ticks of its axes."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MARGIN = 0.04  # share of the range of prices left free above and below
_FLAT_MARGIN = 0.01  # share of the price, where it never moved
_MOST_DIGITS = 12
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear scale of a plot of width x height pixels with `bars` bars from left to right. low, high: the prices of its
    lowest and highest row."""

    low: float
    high: float
    bars: int
    width: int
    height: int

    def y(self, price: float) -> int:
        """Return the row of a price; outside the plot for one that is not between low and high."""
        return round((self.high - price) / (self.high - self.low) * (self.height - 1))

    def x(self, bar: float) -> int:
        return int((bar + 0.5) * self.width / self.bars)

    @property
    def half_body(self) -> int:
        """Half the width of a candle's body, without its middle."""
        return int(self.width / self.bars * 0.35)

    def holds(self, price: float) -> bool:
        return self.low <= price <= self.high


def scale_of(lowest: float, highest: float, bars: int, width: int, height: int) -> Scale:
    """Prices from lowest to highest with a margin; a price that never moved is in the middle."""
    margin = (highest - lowest) * _MARGIN or highest * _FLAT_MARGIN
    return Scale(lowest - margin, highest + margin, bars, width, height)


def price_ticks(low: float, high: float, most: int) -> tuple[list[float], int]:
    """Return round prices within a range, at most so many, and the decimals that they need."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(round(power * one, _MOST_DIGITS) for one in _STEPS if power * one >= rough)
    first = math.ceil(low / step)
    count = math.floor(high / step) - first + 1
    digits = next((digits for digits in range(_MOST_DIGITS) if round(step, digits) == step), _MOST_DIGITS)
    return [(first + place) * step for place in range(count)], digits


def date_ticks(dates: Sequence[dt.date], scale: Scale, apart: int) -> Iterator[tuple[int, str]]:
    """Yield (column, label) for the first bar of each month, or of each intraday day, at least `apart` pixels apart."""
    last, intraday = -apart, isinstance(dates[0], dt.datetime)
    for at, day in enumerate(dates):
        before = dates[at - 1]
        begins = at == 0 or before.month != day.month or (intraday and before.day != day.day)
        if begins and scale.x(at) - last >= apart:
            last = scale.x(at)
            yield last, f"{day:%Y-%m-%d}" if at == 0 else f"{day:%m-%d}" if intraday else f"{day:%Y-%m}"
