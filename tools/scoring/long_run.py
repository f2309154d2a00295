"""Variances of a sum of deviations from a mean that overlap in time and share sessions and names; `inference` has the
sources."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.protocol import Floats

Places = npt.NDArray[np.integer]
# Of a sum of deviations: what dates show, with its degrees, and what names add, with its part of Satterthwaite's sum.
Variances = tuple[float, int, float, float]

LEAST_NAMES = 5  # that can show what a name's values share
LOW, STANDS_OUT = 3, 6.0  # the slowest cosines, and how many times the others they are where strength drifts


def variances(
    places: Sequence[int] | Places, deviations: Sequence[float] | Floats, weights: Sequence[float] | Floats,
    names: Sequence[int] | Places, by_date: Sequence[float] | Places, cosines: int, overlap: int,
) -> Variances:  # fmt: skip
    """places: date of each deviation, from 0; names: whose each is, from 0; by_date: sum of each date's weights."""
    place, off = np.asarray(places), np.asarray(deviations)
    shown, degrees = _by_date(place, off, np.asarray(by_date), cosines, overlap)
    return shown, degrees, *_by_name(np.asarray(names), place, off, np.asarray(weights), overlap, shown)


def _by_date(places: Places, deviations: Floats, weights: Floats, cosines: int, overlap: int) -> tuple[float, int]:
    """Return the variance that dates show, and its degrees. weights: sum of each date.

    A squared coefficient is divided by its share of what independent dates of these weights would give, and by what
    outcomes that overlap in full leave of it (Fejer's kernel). The slowest ones stand for all where they stand out.
    """
    count = len(weights)
    sums = np.bincount(places, weights=deviations, minlength=count)
    number = np.arange(1, cosines + 1)
    waves = np.cos(np.pi * np.outer(number, np.arange(count) + 0.5) / count)
    waves -= (waves @ weights)[:, None] / weights.sum()
    share = (waves**2 @ weights**2) / (weights**2).sum()
    half = np.pi * number / (2 * count)
    left = (np.sin(overlap * half) / (overlap * np.sin(half))) ** 2
    squares = (waves @ sums) ** 2 / (share * left)
    drifts = cosines > LOW and squares[:LOW].mean() > STANDS_OUT * squares[LOW:].mean()
    kept = squares[:LOW] if drifts else squares
    return float(kept.mean()), len(kept)


def _by_name(
    who: Places, place: Places, deviations: Floats, weights: Floats, overlap: int, by_date: float
) -> tuple[float, float]:
    """Return what the values of one name add beyond their overlap, 0 where they add nothing, and its part of
    Satterthwaite's sum. by_date: variance that dates show; deviations from the common mean lack a part of it."""
    dates = int(place.max()) + 1
    there = np.bincount(who * np.int64(dates) + place) > 0
    often = np.flatnonzero(np.add.reduceat(there, np.arange(0, len(there), dates)) > 1)
    if len(often) < LEAST_NAMES:
        return 0.0, 0.0
    row = np.full(int(who.max()) + 1, -1)
    row[often] = np.arange(len(often))
    kept = row[who] >= 0
    cell = row[who[kept]] * dates + place[kept]

    def far(values: Floats) -> tuple[float, float]:
        """Return the sum of products of one name's values, and that without those that overlap."""
        sums = np.bincount(cell, weights=values[kept], minlength=len(often) * dates)
        table = sums.reshape(len(often), dates)
        lags = (float((table[:, lag:] * table[:, : dates - lag]).sum()) for lag in range(overlap))
        whole = float((table.sum(axis=1) ** 2).sum())
        return whole, whole - sum((2 if lag else 1) * near for lag, near in enumerate(lags))

    (whole, apart), (_, pairs) = far(deviations), far(weights)
    lacking = pairs / float(weights.sum()) ** 2
    shared = max(0.0, apart + by_date * lacking) / (1 - lacking)
    return shared, shared * (whole + by_date * lacking) / (len(often) - 1)
