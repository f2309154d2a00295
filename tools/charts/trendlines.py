"""Trendlines: the line through two swings of a kind that most others touch and hardly any close breaks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from chordesk.tools.charts.swings import Swing
from chordesk.tools.market.protocol import Floats

_APART = 10  # bars between the two swings
_BREAKS = 2  # closes that may lie beyond the line


class Trendline(NamedTuple):
    """A line from one swing to another and on to the last bar. slope: price a bar; now: its price at the last bar."""

    id: str
    kind: Literal["support", "resistance"]
    start: Swing
    end: Swing
    slope: float
    touches: int
    now: float


def trendlines(swings: Sequence[Swing], close: Floats, atr: float) -> tuple[Trendline, ...]:
    """Return the line under the lows and the line over the highs, at most one of each.

    Of all pairs of swings at least 10 bars apart whose line at most 2 closes since the first of them lie beyond by more
    than half an average true range, it is the one with the most touches (swings since then within that distance), then
    the most recent (Murphy, Technical Analysis of the Financial Markets, 1999, chapter 4; the thresholds are ours).
    A line that is not above zero now is none.
    """
    found = (_line(kind, [one for one in swings if one.kind == side], close, atr) for kind, side in _KINDS)
    return tuple(line for line in found if line is not None)


_KINDS: tuple[tuple[Literal["support", "resistance"], str], ...] = (("support", "low"), ("resistance", "high"))


def _line(
    kind: Literal["support", "resistance"], swings: Sequence[Swing], close: Floats, atr: float
) -> Trendline | None:
    pairs = [(a, b) for a, b in combinations(range(len(swings)), 2) if swings[b].at - swings[a].at >= _APART]
    if not pairs or not atr > 0:
        return None
    first, second = np.array(pairs).T
    at, price = np.array([one.at for one in swings]), np.array([one.price for one in swings])
    slope = (price[second] - price[first]) / (at[second] - at[first])
    base = price[first] - slope * at[first]
    reach = atr / 2
    bars = np.arange(len(close))
    beyond = (close - (base[:, None] + slope[:, None] * bars)) * (-1 if kind == "support" else 1) > reach
    breaks = np.where(bars >= at[first][:, None], beyond, False).sum(axis=1)
    near = np.abs(price - (base[:, None] + slope[:, None] * at)) <= reach
    touches = np.where(at >= at[first][:, None], near, False).sum(axis=1)
    now = base + slope * (len(close) - 1)
    order = np.lexsort((at[first], at[second], touches, (breaks <= _BREAKS) & (now > 0)))
    best = order[-1]
    if breaks[best] > _BREAKS or now[best] <= 0:
        return None
    start, end = swings[first[best]], swings[second[best]]
    name = "TS" if kind == "support" else "TR"
    return Trendline(name, kind, start, end, float(slope[best]), int(touches[best]), float(now[best]))
