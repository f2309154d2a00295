"""Tables of own files: columns under the names that we use, in parts of bounded size, each line with its row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
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


def doubled(header: Sequence[str], names: Names) -> list[str]:
    """Return the columns that are there more than once: by the same name, or, of those that we use, in another form of
    letters."""
    used = {each for theirs in names.values() for each in theirs}
    counted = Counter(plain(column) if plain(column) in used else column.strip() for column in header)
    return sorted({column.strip() for column in header if column.strip() and _again(column, used, counted)})


def _again(column: str, used: Container[str], counted: Mapping[str, int]) -> bool:
    return counted[plain(column) if plain(column) in used else column.strip()] > 1


def matched(header: Sequence[str], names: Names) -> dict[str, int]:
    """Return the place of each of our columns that the header has."""
    places: dict[str, int] = {}
    written = [plain(column) for column in header]
    for ours, theirs in names.items():
        place = next((written.index(each) for each in theirs if each in written), None)
        if place is not None and place not in places.values():
            places[ours] = place
    return places
