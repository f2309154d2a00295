"""Lines of a chart: swing highs and lows, and the levels, Fibonacci ratios and trendlines that are drawn from them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import combinations
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


Strength = Literal["strong", "moderate", "weak"]
_STRONG, _MODERATE = 3, 2  # touches; thresholds of our own
# Half the widest cluster: half an average true range, or this share of the price where that is more.
_ATR_SHARE, _PRICE_SHARE = 0.5, 0.005


class PriceLevel(NamedTuple):
    """A price that swings have touched."""

    id: str  # S1 is the nearest support, R1 the nearest resistance, and so on
    price: float
    touches: int
    last_touch: dt.date
    # low, high: the lowest and the highest of the swings
    low: float
    high: float

    @property
    def strength(self) -> Strength:
        return "strong" if self.touches >= _STRONG else "moderate" if self.touches >= _MODERATE else "weak"


class Levels(NamedTuple):
    """Levels at or below the close and above it, the nearest first."""

    support: tuple[PriceLevel, ...]
    resistance: tuple[PriceLevel, ...]


class Confluence(NamedTuple):
    """Levels of more than one kind close together. members: their ids; price: their mean."""

    id: str
    price: float
    members: tuple[str, ...]


def tolerance(close: float, atr: float) -> float:
    """Return the distance within which a price touches a level."""
    return max(_ATR_SHARE * atr, _PRICE_SHARE * close)


def levels(swings: Sequence[Swing], close: float, atr: float, most: int) -> Levels:
    """Return the levels of the swings, at most so many on each side of the close; a level's price is its swings' mean.
    Prices are joined by complete linkage (Defays, An efficient algorithm for a complete link method, 1977) up to a
    width of twice the tolerance. Not every bar is clustered: nearly each price would be a level then."""
    clusters = _linked([one.price for one in swings], 2 * tolerance(close, atr))
    order = sorted(swings, key=lambda one: one.price)
    found, first = [], 0
    for size in clusters:
        some, first = order[first : first + size], first + size
        mean, last = sum(one.price for one in some) / size, max(one.date for one in some)
        found.append((mean, size, last, some[0].price, some[-1].price))
    below = [one for one in reversed(found) if one[0] <= close]
    above = [one for one in found if one[0] > close]
    return Levels(_numbered("S", below[:most]), _numbered("R", above[:most]))


def confluence(
    kinds: Sequence[Sequence[tuple[str, float]]], close: float, atr: float, most: int
) -> tuple[Confluence, ...]:
    """Return the places where levels of two or more kinds lie within the tolerance, the nearest to the close first.
    kinds: the (id, price) pairs of each kind, such as support and resistance, retracements, trendlines. They are joined
    as swings are, up to a width of one tolerance."""
    pairs = sorted((price, kind, id) for kind, some in enumerate(kinds) for id, price in some)
    found, first = [], 0
    for size in _linked([price for price, _, _ in pairs], tolerance(close, atr)):
        some, first = pairs[first : first + size], first + size
        if len({kind for _, kind, _ in some}) > 1:
            found.append((sum(price for price, _, _ in some) / size, tuple(id for _, _, id in some)))
    found.sort(key=lambda one: (abs(one[0] - close), one[0]))
    return tuple(Confluence(f"C{place}", *one) for place, one in enumerate(found[:most], 1))


def _numbered(letter: str, found: Sequence[tuple[float, int, dt.date, float, float]]) -> tuple[PriceLevel, ...]:
    return tuple(PriceLevel(f"{letter}{place}", *one) for place, one in enumerate(found, 1))


def _linked(prices: Sequence[float], width: float) -> list[int]:
    """Return the sizes of the clusters of the sorted prices. On a line only neighbours are ever joined."""
    ordered = sorted(prices)
    firsts, lasts, sizes = list(ordered), list(ordered), [1] * len(ordered)
    while len(sizes) > 1:
        span, at = min((last - first, at) for at, (first, last) in enumerate(zip(firsts, lasts[1:], strict=False)))
        if span > width:
            break
        lasts[at], sizes[at] = lasts[at + 1], sizes[at] + sizes[at + 1]
        del firsts[at + 1], lasts[at + 1], sizes[at + 1]
    return sizes


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


_APART = 10  # bars between the two swings
_BREAKS = 2  # closes that may lie beyond the line
FAR = 5.0  # average true ranges from the close, beyond which a line says nothing of today
_RECENTLY = 20  # bars for which a line that was broken is still named
_PROVEN = 3  # touches of a line whose break is named
_STEEP = 10.0  # a slope of a tenth of an average true range a bar halves the score

LineKind = Literal["support", "resistance"]


class Trendline(NamedTuple):
    """A line from one swing to another and on to the last bar."""

    id: str
    kind: LineKind  # support where it lies at or below the close, resistance above it; of a broken line what it was
    start: Swing
    end: Swing
    slope: float  # price a bar
    touches: int
    now: float  # its price at the last bar
    distance: float  # of the close from it, in average true ranges
    score: float
    broken: dt.date | None  # date of the first close beyond it since its second swing, None while it holds


def trendlines(swings: Sequence[Swing], bars: Bars, atr: float) -> tuple[Trendline, ...]:
    """Return the best lines: TS and TR that hold, below and above the close, BS and BR that were broken lately.

    A line goes through two lows, or two highs, at least 10 bars apart, with at most 2 closes between them beyond it by
    more than half an average true range. It is broken where the last close is beyond it as far, or more than 2 closes
    since its second swing. Later swings within that distance touch it. A line over 5 average true ranges from the close
    is none; a broken one is named for 20 bars if it had 3 touches.

    score: touches x age / ((1 + distance) x (1 + 10 x slope)), where age is the share of the bars since its first
    swing, and distance and slope (a bar) are in average true ranges (Murphy, Technical Analysis of the Financial
    Markets, 1999, chapter 4, for what makes a line; weights and thresholds are ours).
    """
    if not atr > 0:
        return ()
    found = [
        line
        for kind, sign in (("low", 1), ("high", -1))
        for line in _through([one for one in swings if one.kind == kind], bars, atr, sign)
    ]
    best = {one.id: one for one in sorted(found, key=lambda one: (one.score, one.end.at, one.start.at))}
    return tuple(best[id] for id in ("TS", "TR", "BS", "BR") if id in best)


def _through(swings: Sequence[Swing], bars: Bars, atr: float, sign: int) -> list[Trendline]:
    """Return the lines through pairs of the swings. sign: 1 of lows, which closes break downwards, -1 of highs."""
    pairs = [(a, b) for a, b in combinations(range(len(swings)), 2) if swings[b].at - swings[a].at >= _APART]
    if not pairs:
        return []
    first, second = np.array(pairs).T
    at, price = np.array([one.at for one in swings]), np.array([one.price for one in swings])
    slope = (price[second] - price[first]) / (at[second] - at[first])
    base = price[first] - slope * at[first]
    places, last = np.arange(len(bars.close)), len(bars.close) - 1
    beyond = sign * (base[:, None] + slope[:, None] * places - bars.close) > atr / 2
    between = beyond & (places >= at[first][:, None]) & (places <= at[second][:, None])
    since = beyond & (places > at[second][:, None])
    broken = since[:, -1] | (since.sum(axis=1) > _BREAKS)
    ends = np.where(broken, since.argmax(axis=1), last)
    near = np.abs(price - (base[:, None] + slope[:, None] * at)) <= atr / 2
    touches = (near & (at >= at[first][:, None]) & (at <= ends[:, None])).sum(axis=1)
    now = base + slope * last
    distance = np.abs(bars.close[-1] - now) / atr
    age = (last - at[first]) / last
    score = touches * age / ((1 + distance) * (1 + _STEEP * np.abs(slope) / atr))
    named = ~broken | ((last - ends < _RECENTLY) & (touches >= _PROVEN))
    good = named & (between.sum(axis=1) <= _BREAKS) & (now > 0) & (distance <= FAR)
    found = []
    for one in np.flatnonzero(good).tolist():
        is_below = sign > 0 if broken[one] else bool(now[one] <= bars.close[-1])
        found.append(
            Trendline(
                ("B" if broken[one] else "T") + ("S" if is_below else "R"),
                "support" if is_below else "resistance",
                swings[first[one]],
                swings[second[one]],
                float(slope[one]),
                int(touches[one]),
                float(now[one]),
                float(distance[one]),
                float(score[one]),
                bars.dates[int(ends[one])] if broken[one] else None,
            )
        )
    return found
