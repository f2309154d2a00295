"""Support and resistance: clusters of swing prices, and the places where levels of several kinds meet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Literal, NamedTuple

from chordesk.tools.charts.swings import Swing

Strength = Literal["strong", "moderate", "weak"]
_STRONG, _MODERATE = 3, 2  # touches; thresholds of our own
# Half the widest cluster: half an average true range, or this share of the price where that is more.
_ATR_SHARE, _PRICE_SHARE = 0.5, 0.005


class PriceLevel(NamedTuple):
    """A price that swings have touched. id: S1 is the nearest support, R1 the nearest resistance, and so on."""

    id: str
    price: float
    touches: int
    last_touch: dt.date

    @property
    def strength(self) -> Strength:
        """The level's strength by its touches: three make it strong, two moderate."""
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
    width of twice the tolerance. Not every bar is clustered: nearly each price would be a level then.
    """
    clusters = _linked([one.price for one in swings], 2 * tolerance(close, atr))
    order = sorted(swings, key=lambda one: one.price)
    found, first = [], 0
    for size in clusters:
        some, first = order[first : first + size], first + size
        found.append((sum(one.price for one in some) / size, size, max(one.date for one in some)))
    below = [one for one in reversed(found) if one[0] <= close]
    above = [one for one in found if one[0] > close]
    return Levels(_numbered("S", below[:most]), _numbered("R", above[:most]))


def confluence(
    kinds: Sequence[Sequence[tuple[str, float]]], close: float, atr: float, most: int
) -> tuple[Confluence, ...]:
    """Return the places where levels of two or more kinds lie within the tolerance, the nearest to the close first.

    kinds: the (id, price) pairs of each kind, such as support and resistance, retracements, trendlines. They are joined
    as swings are, up to a width of one tolerance.
    """
    pairs = sorted((price, kind, id) for kind, some in enumerate(kinds) for id, price in some)
    found, first = [], 0
    for size in _linked([price for price, _, _ in pairs], tolerance(close, atr)):
        some, first = pairs[first : first + size], first + size
        if len({kind for _, kind, _ in some}) > 1:
            found.append((sum(price for price, _, _ in some) / size, tuple(id for _, _, id in some)))
    found.sort(key=lambda one: (abs(one[0] - close), one[0]))
    return tuple(Confluence(f"C{place}", *one) for place, one in enumerate(found[:most], 1))


def _numbered(letter: str, found: Sequence[tuple[float, int, dt.date]]) -> tuple[PriceLevel, ...]:
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
