"""Candlestick patterns of the last bars, as TA-Lib defines them."""

from __future__ import annotations

import datetime as dt
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from chordesk.tools.figures import load_talib
from chordesk.tools.market.protocol import Bars

RECENT = 10  # bars in which patterns are looked for
BARS = 30  # bars that TA-Lib needs before them, with its averages of 10 and up to 5 candles

# TA-Lib's functions by the names of Nison, Japanese Candlestick Charting Techniques, 1991.
_FUNCTIONS = {
    "engulfing": "CDLENGULFING",
    "harami": "CDLHARAMI",
    "piercing": "CDLPIERCING",
    "dark cloud cover": "CDLDARKCLOUDCOVER",
    "hammer": "CDLHAMMER",
    "hanging man": "CDLHANGINGMAN",
    "inverted hammer": "CDLINVERTEDHAMMER",
    "shooting star": "CDLSHOOTINGSTAR",
    "morning star": "CDLMORNINGSTAR",
    "evening star": "CDLEVENINGSTAR",
    "three white soldiers": "CDL3WHITESOLDIERS",
    "three black crows": "CDL3BLACKCROWS",
    "marubozu": "CDLMARUBOZU",
    "doji": "CDLDOJI",
}
_UNDECIDED = frozenset({"doji"})


class Pattern(NamedTuple):
    """A pattern that ends at a bar."""

    date: dt.date
    name: str
    direction: Literal["bullish", "bearish", "undecided"]


def patterns(bars: Bars) -> tuple[Pattern, ...]:
    """Return the patterns that end in the last 10 bars, in order of time; each is made of bars up to its own."""
    some = bars.last(RECENT + BARS)
    prices, lib = (some.open, some.high, some.low, some.close), load_talib()
    found = []
    for name, function in _FUNCTIONS.items():
        marks = getattr(lib, function)(*prices)
        found += [_pattern(name, some.dates[at], int(marks[at])) for at in _recent(marks)]
    return tuple(sorted(found, key=lambda one: (one.date, one.name)))


def _recent(marks: npt.NDArray[np.int32]) -> list[int]:
    first = max(len(marks) - RECENT, 0)
    places: list[int] = (np.flatnonzero(marks[first:]) + first).tolist()
    return places


def _pattern(name: str, date: dt.date, mark: int) -> Pattern:
    return Pattern(date, name, "undecided" if name in _UNDECIDED else "bullish" if mark > 0 else "bearish")
