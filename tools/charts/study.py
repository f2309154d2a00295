"""The study of one symbol: everything that is computed from its bars, with an id for each level and line, and what a
chart shows of it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from chordesk.models.analysis import ExtensionFigures, Quality, Risk, TrendFigures
from chordesk.tools.charts import lines as levels_of
from chordesk.tools.charts.frames import Frame
from chordesk.tools.charts.lines import (
    Confluence,
    Fibonacci,
    Levels,
    PriceLevel,
    Swing,
    Trendline,
    fibonacci,
    needed,
    swings,
    trendlines,
)
from chordesk.tools.decimals import finite
from chordesk.tools.market.protocol import Bars, Floats
from chordesk.tools.prices.price_figures import load_talib

PERIODS = 14
ATR_BARS, ADX_BARS = PERIODS + 1, 2 * PERIODS  # bars without which TA-Lib has no figure
# Thresholds of our own, but for 25, which is Wilder's.
_STRONG, _MODERATE = (25.0, 0.7), (20.0, 0.4)
_FLAT = 0.2
_HIGH, _RAISED = 4.0, 2.0


def average_true_range(bars: Bars) -> float | None:
    """Return the average true range of 14 bars (Wilder, New Concepts in Technical Trading Systems, 1978, section III);
    None where there are fewer than 15 bars."""
    if len(bars.dates) < ATR_BARS:
        return None
    return finite(load_talib().ATR(bars.high, bars.low, bars.close, PERIODS)[-1])


def directional_index(bars: Bars) -> float | None:
    """Return the average directional index of 14 bars, 0 to 100 (Wilder 1978, section IV); None where there are fewer
    than 28 bars, or the price never moved."""
    if len(bars.dates) < ADX_BARS or not np.ptp(np.r_[bars.high, bars.low]):
        return None
    return finite(load_talib().ADX(bars.high, bars.low, bars.close, PERIODS)[-1])


def trend(close: Floats, adx: float | None, bars: int, bars_a_year: int) -> TrendFigures | None:
    """Return the trend of the last `bars` closes; None where there are fewer, or the price never moved.

    A line is fitted to log closes; score is its yearly growth times R2 (Clenow, Stocks on the Move, 2015, chapter 7).
    direction: the slope's sign, sideways where R2 is under 0.2. quality: strong with an ADX of 25 and R2 of 0.7,
    moderate with an ADX of 20 or R2 of 0.4; None where there is no ADX.
    """
    if len(close) < bars:
        return None
    values = np.log(close[-bars:])
    offsets, times = values - values.mean(), np.arange(bars) - (bars - 1) / 2
    spread, total = float(times @ times), float(offsets @ offsets)
    if total <= bars * np.finfo(float).eps ** 2 or not np.ptp(close[-bars:]):
        return None
    slope = float(times @ offsets) / spread
    r2 = min(slope * slope * spread / total, 1.0)
    growth = math.exp(min(slope * bars_a_year, 50.0)) - 1
    direction: Literal["up", "down", "sideways"] = "sideways" if r2 < _FLAT else "up" if slope > 0 else "down"
    return TrendFigures(
        direction=direction, quality=_quality(adx, r2), r2=r2, slope_year=growth, score=growth * r2, bars=bars
    )


def extension(close: float, support: float, atr: float) -> ExtensionFigures | None:
    """Return how far the close is above a support: more than 4 average true ranges is a high risk, from 2 on moderate.
    None where the range is zero."""
    if not atr > 0:
        return None
    distance = (close - support) / atr
    risk: Risk = "high" if distance > _HIGH else "moderate" if distance >= _RAISED else "low"
    return ExtensionFigures(atr=distance, risk=risk)


def _quality(adx: float | None, r2: float) -> Quality | None:
    if adx is None:
        return None
    if adx >= _STRONG[0] and r2 >= _STRONG[1]:
        return "strong"
    return "moderate" if adx >= _MODERATE[0] or r2 >= _MODERATE[1] else "weak"


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


class Study(NamedTuple):
    """Figures of one frame at its last bar; None where there are too few bars or the figure is undefined.

    levels, trendlines: None where there is no average true range to measure a touch with, or no swing.
    """

    frame: Frame
    lookback: int
    close: float
    atr: float | None
    adx: float | None
    swings: tuple[Swing, ...]
    fib: Fibonacci | None
    levels: Levels | None
    trendlines: tuple[Trendline, ...] | None
    trend: TrendFigures | None
    extension: ExtensionFigures | None
    confluence: tuple[Confluence, ...]
    patterns: tuple[Pattern, ...] | None

    def prices(self) -> dict[str, float]:
        """Return the price of each level, line and zone by its id; a trendline's is its price at the last bar."""
        found = {one.id: one.price for one in self.confluence}
        if self.fib is not None:
            found |= {one.id: one.price for one in (*self.fib.retracements, *self.fib.extensions)}
        if self.levels is not None:
            found |= {one.id: one.price for one in (*self.levels.support, *self.levels.resistance)}
        return found | {one.id: one.now for one in self.lines_that_hold()}

    def lines_that_hold(self) -> tuple[Trendline, ...]:
        return tuple(one for one in self.trendlines or () if one.broken is None)

    def lacks(self) -> Iterator[tuple[str, str]]:
        """Yield each figure that is missing, with the reason."""
        bars, noun = self.frame.bars, self.frame.period.noun
        have, long = len(bars.dates), len(self.frame.long.dates)
        if have < needed(self.lookback):
            few = f"a swing of lookback {self.lookback} needs {needed(self.lookback)} {noun}; there are {have}"
            yield "swings, fib, levels, trendlines", few
        elif not self.swings:
            yield "fib, levels, trendlines", f"no swing in {have} {noun}"
        elif self.fib is None:
            yield "fib", f"all swings are {self.swings[0].kind}s"
        if self.atr is None:
            yield "atr14", f"needs {ATR_BARS} {noun}; there are {long}"
        if self.adx is None:
            yield "adx14", _few(long, ADX_BARS, noun)
        if self.trend is None:
            yield "trend", _few(len(self.frame.long.dates), self.frame.period.trend, noun)
        if self.patterns is None:
            yield "patterns", f"needs {BARS + RECENT} {noun}; there are {long}"
        if self.extension is None and self.levels is not None:
            yield "extension", "no support below the close" if not self.levels.support else "the price never moved"


def _few(have: int, wanted: int, noun: str) -> str:
    return f"needs {wanted} {noun}; there are {have}" if have < wanted else "the price never moved"


def study_of(frame: Frame, lookback: int, most: int) -> Study:
    """Return the study of a frame. most: levels on each side of the close, and zones of confluence."""
    bars, close = frame.bars, float(frame.bars.close[-1])
    atr, adx = average_true_range(frame.long), directional_index(frame.long)
    found = swings(bars, lookback)
    fib = fibonacci(found)
    levels = levels_of.levels(found, close, atr, most) if found and atr is not None else None
    lines = trendlines(found, bars, atr) if found and atr is not None else None
    return Study(
        frame=frame,
        lookback=lookback,
        close=close,
        atr=atr,
        adx=adx,
        swings=found,
        fib=fib,
        levels=levels,
        trendlines=lines,
        trend=trend(frame.long.close, adx, frame.period.trend, frame.period.a_year),
        extension=_extension(close, levels, atr),
        confluence=_confluence(close, atr, most, fib, levels, lines),
        patterns=patterns(frame.long) if len(frame.long.dates) >= BARS + RECENT else None,
    )


def _extension(close: float, levels: Levels | None, atr: float | None) -> ExtensionFigures | None:
    if levels is None or atr is None or not levels.support:
        return None
    return extension(close, levels.support[0].price, atr)


def _confluence(
    close: float,
    atr: float | None,
    most: int,
    fib: Fibonacci | None,
    levels: Levels | None,
    lines: tuple[Trendline, ...] | None,
) -> tuple[Confluence, ...]:
    if atr is None or levels is None:
        return ()
    kinds = [
        [(one.id, one.price) for one in (*levels.support, *levels.resistance)],
        [(one.id, one.price) for one in (*fib.retracements, *fib.extensions)] if fib is not None else [],
        [(one.id, one.now) for one in lines or () if one.broken is None],
    ]
    return levels_of.confluence(kinds, close, atr, most)


Overlay = Literal["levels", "fib", "trendlines", "swings", "sma20", "sma50", "sma200", "bollinger", "rsi14"]
OVERLAYS: tuple[Overlay, ...] = get_args(Overlay)
_AVERAGES: dict[str, int] = {"sma20": 20, "sma50": 50, "sma200": 200}


MOST_ZONES = 6


class DrawnLevel(NamedTuple):
    """A level or zone of a chart. low, high: of a zone; both the price where it is a line. touches: swings that touched
    it."""

    id: str
    price: float
    kind: Literal["support", "resistance", "fib", "plan"]
    low: float
    high: float
    touches: int = 0


def levels(study: Study, overlays: Collection[str], ids: Collection[str]) -> list[DrawnLevel]:
    """Return the levels that a chart shows: of the ids if there are any, else the ratios of the move and the six best
    supports and resistances. A level's score is touches x (1 - age) / (1 + distance): age is the share of the bars
    since its last touch, distance that of the close in average true ranges."""
    found = []
    if "fib" in overlays and study.fib is not None:
        some = (*study.fib.retracements, *study.fib.extensions)
        found += [DrawnLevel(one.id, one.price, "fib", one.price, one.price) for one in some]
    if "levels" in overlays and study.levels is not None:
        kept = sorted((*study.levels.support, *study.levels.resistance), key=lambda one: -_level_score(study, one))
        kept = [one for one in kept if one.id in ids] if ids else kept[:MOST_ZONES]
        below = [
            DrawnLevel(one.id, one.price, "support", one.low, one.high, one.touches)
            for one in study.levels.support
            if one in kept
        ]
        above = [
            DrawnLevel(one.id, one.price, "resistance", one.low, one.high, one.touches)
            for one in study.levels.resistance
            if one in kept
        ]
        found += [*below, *above]
    return [one for one in found if one.id in ids] if ids else found


def _level_score(study: Study, level: PriceLevel) -> float:
    dates = study.frame.bars.dates
    age = 1 - dates.index(level.last_touch) / len(dates)
    distance = abs(study.close - level.price) / study.atr if study.atr else 0.0
    return level.touches * (1 - age) / (1 + distance)


def lines(study: Study, overlays: Collection[str], ids: Collection[str]) -> list[Trendline]:
    found = study.trendlines or () if "trendlines" in overlays else ()
    return [one for one in found if not ids or one.id in ids]


def series(frame: Frame, overlays: Collection[str]) -> dict[str, Floats]:
    lib, close = load_talib(), frame.long.close
    found: dict[str, Floats] = {
        name: lib.SMA(close, _AVERAGES[name]) for name in OVERLAYS if name in overlays and name in _AVERAGES
    }
    if "bollinger" in overlays:
        upper, _, lower = lib.BBANDS(close, 20)
        found |= {"bollinger upper": upper, "lower": lower}
    return {name: _aligned(frame, values) for name, values in found.items()}


def relative_strength(frame: Frame) -> Floats:
    return _aligned(frame, load_talib().RSI(frame.long.close, 14))


def _aligned(frame: Frame, values: Floats) -> Floats:
    """An indicator at the places of the bars drawn, not a number where there is no value."""
    there = np.flatnonzero(np.isfinite(frame.shown.close))
    found = values[-len(there) :]
    wide = np.full(len(frame.shown.dates), np.nan)
    wide[there[len(there) - len(found) :]] = found
    return wide
