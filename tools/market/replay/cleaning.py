"""Cleaning of the replay's raw rows. Each rule looks at one row alone, so that no row can reveal a later one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

PRICES = ("open", "high", "low", "close")
ROW = np.dtype([("day", "i4"), ("symbol", "U8"), *((name, "f8") for name in PRICES), ("volume", "f8")])
# The file counts volume in round lots.
SHARES_PER_LOT = 100


def clean(raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the rows that can be used, with volume in shares. The fields are those of ROW.

    Rows with a price that is not positive and finite, a low above the high, or no volume figure are left out. Where an
    open or close lies outside low..high, low and high are widened to hold it, because the opening auction's price is
    real and the printed range is what left it out.
    """
    rows = raw[_usable(raw)].copy()
    rows["volume"] *= SHARES_PER_LOT
    rows["low"] = np.minimum(rows["low"], np.minimum(rows["open"], rows["close"]))
    rows["high"] = np.maximum(rows["high"], np.maximum(rows["open"], rows["close"]))
    return rows


def _usable(raw: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    usable: npt.NDArray[np.bool_] = np.isfinite(raw["volume"]) & (raw["volume"] >= 0) & (raw["low"] <= raw["high"])
    for name in PRICES:
        usable &= np.isfinite(raw[name]) & (raw[name] > 0)
    return usable
