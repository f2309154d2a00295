"""Swing highs and lows: Williams fractals, each confirmed by the bars after it."""

from __future__ import annotations

import datetime as dt
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from chordesk.tools.market.protocol import Bars, Floats

SwingKind = Literal["high", "low"]


class Swing(NamedTuple):
    """A swing at bar `at`, known from bar `at` + lookback on. confirmed: that bar's date; price: its high or low."""

    id: str
    at: int
    kind: SwingKind
    price: float
    date: dt.date
    confirmed: dt.date


def swings(bars: Bars, lookback: int) -> tuple[Swing, ...]:
    """Return the swings in order of time: a high above each of the `lookback` highs before it, and not below one of as
    many after it; a low likewise.

    The fractal of Williams, Trading Chaos, 1995, for any lookback (2 in the book). The side before is strict and the
    side after is not, so that of equal highs the first is the swing. Later bars never change a swing that is confirmed.
    """
    found = [
        Swing(_id(kind, bars.dates[at]), at, kind, price, bars.dates[at], bars.dates[at + lookback])
        for kind, prices in _sides(bars)
        for at, price in _peaks(prices, lookback, 1 if kind == "high" else -1)
    ]
    return tuple(sorted(found, key=lambda one: (one.at, one.kind)))


def _id(kind: SwingKind, date: dt.date) -> str:
    return f"{kind[0].upper()}{date:%y%m%d%H%M}" if isinstance(date, dt.datetime) else f"{kind[0].upper()}{date:%y%m%d}"


def needed(lookback: int) -> int:
    """Return the bars without which there can be no swing."""
    return 2 * lookback + 1


def _sides(bars: Bars) -> tuple[tuple[SwingKind, Floats], tuple[SwingKind, Floats]]:
    return ("high", bars.high), ("low", bars.low)


def _peaks(prices: Floats, lookback: int, sign: int) -> list[tuple[int, float]]:
    if len(prices) < needed(lookback):
        return []
    windows = sliding_window_view(sign * prices, needed(lookback))
    middle = windows[:, lookback]
    before, after = windows[:, :lookback].max(axis=1), windows[:, lookback + 1 :].max(axis=1)
    places: npt.NDArray[np.intp] = np.flatnonzero((middle > before) & (middle >= after)) + lookback
    return [(at, float(prices[at])) for at in places.tolist()]
