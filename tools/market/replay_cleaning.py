"""Cleaning of the replay's raw rows. Each rule looks at one row alone, so that no row can tell of a later one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

PRICES = ("open", "high", "low", "close")
ROW = np.dtype([("day", "i4"), ("symbol", "U8"), *((name, "f8") for name in PRICES), ("volume", "f8")])
# The file counts volume in round lots.
SHARES_PER_LOT = 100


class CleaningReport(NamedTuple):
    """What was done to the raw rows.

    rows       rows read
    repaired   rows whose open or close lay outside low..high: low and high were widened to hold them, because the
               opening auction's price is real and the printed range is what left it out
    dropped    rows with a price that is not positive and finite, a low above the high, or no volume figure
    """

    rows: int
    repaired: int
    dropped: int


def clean(raw: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], CleaningReport]:
    """(rows kept, with volume in shares; what was done). The fields are those of ROW."""
    usable = _usable(raw)
    rows = raw[usable].copy()
    rows["volume"] *= SHARES_PER_LOT
    low = np.minimum(rows["low"], np.minimum(rows["open"], rows["close"]))
    high = np.maximum(rows["high"], np.maximum(rows["open"], rows["close"]))
    widened = (low < rows["low"]) | (high > rows["high"])
    rows["low"], rows["high"] = low, high
    return rows, CleaningReport(len(raw), int(widened.sum()), int((~usable).sum()))


def _usable(raw: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    usable: npt.NDArray[np.bool_] = np.isfinite(raw["volume"]) & (raw["volume"] >= 0) & (raw["low"] <= raw["high"])
    for name in PRICES:
        usable &= np.isfinite(raw[name]) & (raw[name] > 0)
    return usable
