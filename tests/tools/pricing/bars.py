"""Daily bars with known figures: AAPL as it was quoted, 273 sessions to 2010-05-05, from bokeh's sample data."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Columns(NamedTuple):
    open: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    close: npt.NDArray[np.float64]


@cache
def aapl() -> Columns:
    with Path(__file__).with_name("aapl.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Columns(*(np.array([float(row[name]) for row in rows]) for name in Columns._fields))
