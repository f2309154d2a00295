"""Tables of own files: columns under the names that we use, in parts of bounded size, each line with its row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CSV, PARQUET, JSON_LINES = ".csv", ".parquet", ".jsonl"
ENDINGS = (CSV, PARQUET)
PART = 100_000
_BETWEEN = re.compile(r"[^a-z0-9]+")

Cells = Sequence[str] | npt.NDArray[np.generic]
Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a table. cells: by our names; texts of a CSV file, arrays of a Parquet file. rows: of each line.
    written: the columns' names in the file."""

    file: str
    cells: Mapping[str, Cells]
    rows: npt.NDArray[np.int64]
    written: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.rows)


def plain(column: str) -> str:
    """Return a column's name as it is compared: small letters and digits alone."""
    return _BETWEEN.sub("", column.lower())


def matched(header: Sequence[str], names: Names) -> dict[str, int]:
    """Return the place of each of our columns that the header has."""
    places: dict[str, int] = {}
    written = [plain(column) for column in header]
    for ours, theirs in names.items():
        place = next((written.index(each) for each in theirs if each in written), None)
        if place is not None and place not in places.values():
            places[ours] = place
    return places
