"""Variances of a sum of deviations from a mean that overlap in time and share sessions and names; `inference` has the
sources."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAST_NAMES = 5  # that can show what a name's values share


def variance_by_date(
    places: Sequence[int], deviations: Sequence[float], weights: Sequence[float], cosines: int, overlap: int
) -> float:
    """Return the variance that dates show. places: date of each deviation, from 0; weights: sum of each date.

    A squared coefficient is divided by its share of what independent dates of these weights would give, and by what
    outcomes that overlap in full leave of it (Fejer's kernel).
    """
    weighed, count = np.array(weights), len(weights)
    sums = np.bincount(places, weights=deviations, minlength=count)
    number = np.arange(1, cosines + 1)
    waves = np.cos(np.pi * np.outer(number, np.arange(count) + 0.5) / count)
    waves -= (waves @ weighed)[:, None] / weighed.sum()
    share = (waves**2 @ weighed**2) / (weighed**2).sum()
    half = np.pi * number / (2 * count)
    left = (np.sin(overlap * half) / (overlap * np.sin(half))) ** 2
    return float(np.mean((waves @ sums) ** 2 / (share * left)))


def variance_by_name(
    names: Sequence[str], places: Sequence[int], deviations: Sequence[float], overlap: int
) -> tuple[float, int]:
    """Return what the values of one name add beyond their overlap, 0 where they add nothing, and the number of
    names."""
    known, who = np.unique(np.array(names), return_inverse=True)
    place, count, dates = np.array(places), len(known), max(places) + 1
    if count < LEAST_NAMES:
        return 0.0, count
    often = np.flatnonzero(np.bincount(np.unique(who * dates + place) // dates, minlength=count) > 1)
    if not len(often):
        return 0.0, count
    row = np.full(count, -1)
    row[often] = np.arange(len(often))
    kept = row[who] >= 0
    cell = row[who[kept]] * dates + place[kept]
    sums = np.bincount(cell, weights=np.array(deviations)[kept], minlength=len(often) * dates)
    table = sums.reshape(len(often), dates)
    near = sum((2 if lag else 1) * float((table[:, lag:] * table[:, : dates - lag]).sum()) for lag in range(overlap))
    far = float((table.sum(axis=1) ** 2).sum()) - near
    return max(0.0, far) * count / (count - 1), count
