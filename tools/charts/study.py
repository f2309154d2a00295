"""The study of one symbol: everything that is computed from its bars, with an id for each level and line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chordesk.tools.charts import levels as levels_of
from chordesk.tools.charts import trend as trend_of
from chordesk.tools.charts.fibonacci import Fibonacci, fibonacci
from chordesk.tools.charts.frames import Frame
from chordesk.tools.charts.levels import Confluence, Levels
from chordesk.tools.charts.patterns import BARS, RECENT, Pattern, patterns
from chordesk.tools.charts.swings import Swing, needed, swings
from chordesk.tools.charts.trend import ADX_BARS, ATR_BARS, Extension, Trend
from chordesk.tools.charts.trendlines import Trendline, trendlines


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
    trend: Trend | None
    extension: Extension | None
    confluence: tuple[Confluence, ...]
    patterns: tuple[Pattern, ...] | None

    def prices(self) -> dict[str, float]:
        """Return the price of each level, line and zone by its id; a trendline's is its price at the last bar."""
        found = {one.id: one.price for one in self.confluence}
        if self.fib is not None:
            found |= {one.id: one.price for one in (*self.fib.retracements, *self.fib.extensions)}
        if self.levels is not None:
            found |= {one.id: one.price for one in (*self.levels.support, *self.levels.resistance)}
        return found | {one.id: one.now for one in self.trendlines or ()}

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
    atr, adx = trend_of.average_true_range(frame.long), trend_of.directional_index(frame.long)
    found = swings(bars, lookback)
    fib = fibonacci(found)
    levels = levels_of.levels(found, close, atr, most) if found and atr is not None else None
    lines = trendlines(found, bars.close, atr) if found and atr is not None else None
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
        trend=trend_of.trend(frame.long.close, adx, frame.period.trend, frame.period.a_year),
        extension=_extension(close, levels, atr),
        confluence=_confluence(close, atr, most, fib, levels, lines),
        patterns=patterns(frame.long) if len(frame.long.dates) >= BARS + RECENT else None,
    )


def _extension(close: float, levels: Levels | None, atr: float | None) -> Extension | None:
    if levels is None or atr is None or not levels.support:
        return None
    return trend_of.extension(close, levels.support[0].price, atr)


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
        [(one.id, one.now) for one in lines or ()],
    ]
    return levels_of.confluence(kinds, close, atr, most)
