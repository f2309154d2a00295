"""Bars of charts: Apple's of 2008 to 2010, random walks, and markets that have them.

aapl.csv: unadjusted bars to 2010-05-05 of the Quandl WIKI prices (public domain), as the PyPI package bokeh_sampledata
2026.1 has them.
"""

from __future__ import annotations

import csv
import datetime as dt
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from chordesk.tools.charts.frames import Frame
from chordesk.tools.market.protocol import Bars
from tests.tools.market.far_market import FarClock, FarMarket

_FILE = Path(__file__).with_name("aapl.csv")


@cache
def apple() -> Bars:
    with _FILE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = (np.array([float(row[name]) for row in rows]) for name in ("open", "high", "low", "close", "volume"))
    return Bars("AAPL", [dt.date.fromisoformat(row["date"]) for row in rows], False, *columns)


@dataclass(eq=False)
class AppleMarket(FarMarket):
    """Apple's market, whose sessions are those of its bars."""

    def sessions(self, count: int) -> list[dt.date]:
        return list(apple().dates)[-count:]


def apple_market() -> AppleMarket:
    return AppleMarket({"AAPL": apple()}, clock=FarClock(apple().dates[-1]))


def frame_of(bars: Bars, count: int = 126) -> Frame:
    """The frame of bars without a hole or split."""
    return Frame(bars.symbol, "day", bars.last(count), bars, bars.last(count), count, False)


def walk(seed: int, count: int = 260) -> Bars:
    """A random walk of 3 per cent a day around 100, in steps of 1/1024, so that a shift or a doubling is exact."""
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.03, count)) * 0.5)
    opened = np.r_[100.0, close[:-1]] * (1 + rng.normal(0, 0.005, count))
    high = np.maximum(opened, close) * (1 + np.abs(rng.normal(0, 0.01, count)))
    low = np.minimum(opened, close) * (1 - np.abs(rng.normal(0, 0.01, count)))
    opened, high, low, close = (np.round(values * 1024) / 1024 for values in (opened, high, low, close))
    return bars_of(opened, high, low, close, rng.integers(1, 1000, count).astype(float))


def bars_of(*columns: np.ndarray) -> Bars:
    """Bars of open, high, low, close and volume, one calendar day apart."""
    last = dt.date(2024, 3, 15)
    dates = [last - dt.timedelta(days=back) for back in range(len(columns[0]) - 1, -1, -1)]
    return Bars("W", dates, True, *columns)


def changed(bars: Bars, factor: float = 1.0, shift: float = 0.0) -> Bars:
    prices = (values * factor + shift for values in (bars.open, bars.high, bars.low, bars.close))
    return Bars(bars.symbol, bars.dates, bars.adjusted, *prices, bars.volume)


def first(bars: Bars, count: int) -> Bars:
    """The bars as they were when there were only so many."""
    columns = (values[:count] for values in (bars.open, bars.high, bars.low, bars.close, bars.volume))
    return Bars(bars.symbol, bars.dates[:count], bars.adjusted, *columns)
