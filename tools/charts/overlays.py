"""What a chart shows beside its candles: a study's levels and lines, and indicators."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np

from chordesk.tools.charts.frames import Frame
from chordesk.tools.charts.study import Study
from chordesk.tools.charts.trendlines import Trendline
from chordesk.tools.figures import load_talib
from chordesk.tools.market.protocol import Floats

Overlay = Literal["levels", "fib", "trendlines", "swings", "sma20", "sma50", "sma200", "bollinger", "rsi14"]
OVERLAYS: tuple[Overlay, ...] = get_args(Overlay)
_AVERAGES: dict[str, int] = {"sma20": 20, "sma50": 50, "sma200": 200}


class DrawnLevel(NamedTuple):
    """A horizontal level of a study."""

    id: str
    price: float
    kind: Literal["support", "resistance", "fib"]


def levels(study: Study, overlays: Collection[str]) -> Iterator[DrawnLevel]:
    """Yield the study's levels that the overlays ask for."""
    if "fib" in overlays and study.fib is not None:
        yield from (DrawnLevel(one.id, one.price, "fib") for one in (*study.fib.retracements, *study.fib.extensions))
    if "levels" in overlays and study.levels is not None:
        yield from (DrawnLevel(one.id, one.price, "support") for one in study.levels.support)
        yield from (DrawnLevel(one.id, one.price, "resistance") for one in study.levels.resistance)


def lines(study: Study, overlays: Collection[str]) -> tuple[Trendline, ...]:
    """Return the study's trendlines if the overlays ask for them."""
    return study.trendlines or () if "trendlines" in overlays else ()


def series(frame: Frame, overlays: Collection[str]) -> dict[str, Floats]:
    """Return the indicators on the price scale that the overlays ask for, a value for each bar that is drawn."""
    lib, close = load_talib(), frame.long.close
    found: dict[str, Floats] = {
        name: lib.SMA(close, _AVERAGES[name]) for name in OVERLAYS if name in overlays and name in _AVERAGES
    }
    if "bollinger" in overlays:
        upper, _, lower = lib.BBANDS(close, 20)
        found |= {"bollinger upper": upper, "lower": lower}
    return {name: _aligned(frame, values) for name, values in found.items()}


def relative_strength(frame: Frame) -> Floats:
    """Return Wilder's relative strength index of 14 bars for each bar that is drawn."""
    return _aligned(frame, load_talib().RSI(frame.long.close, 14))


def last_value(values: Floats) -> float | None:
    """Return an indicator's value at the last bar, None where it has none."""
    return float(values[-1]) if math.isfinite(values[-1]) else None


def _aligned(frame: Frame, values: Floats) -> Floats:
    """Return an indicator of the bars without a hole at the places of the bars drawn, not a number before it has a
    value."""
    count = len(frame.shown.dates)
    found = values[-count:]
    return np.concatenate([np.full(count - len(found), np.nan), found])
