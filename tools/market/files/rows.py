"""Daily rows of own files as they are written there: arrays over all files, each row with its place for messages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.files.reading.cells import day_of, number_of
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import Cells, Part
from chordesk.tools.market.protocol import Floats

PRICES = ("open", "high", "low", "close")
_UNREAD = -1


class Rows(NamedTuple):
    """Rows of equal length. owner, file: places in `symbols` and `files`; row: of the file; day: ordinals of dates.

    adjusted: the close after splits and dividends. A figure that a file does not have is not a number.
    """

    symbols: tuple[str, ...]
    files: tuple[str, ...]
    owner: npt.NDArray[np.int32]
    file: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]
    day: npt.NDArray[np.int32]
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    adjusted: Floats
    volume: Floats

    def taken(self, which: npt.NDArray[np.generic]) -> Rows:
        """Return the rows of a mask or of places, in that order."""
        arrays = {name: getattr(self, name)[which] for name in self._fields[2:]}
        return self._replace(**arrays)

    def of_files_with(self, column: str, columns: Mapping[str, frozenset[str]]) -> npt.NDArray[np.bool_]:
        """Return whether each row is of a file with a column. columns: of each file."""
        with_it = np.array([column in columns.get(file, ()) for file in self.files], dtype=bool)
        return with_it[self.file] if len(with_it) else np.zeros(0, dtype=bool)

    def day_at(self, at: int) -> dt.date:
        return dt.date.fromordinal(int(self.day[at]))


class Days:
    """Reader of days; each text is read once."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._known: dict[str, int | str] = {}

    def read(self, part: Part, column: str) -> npt.NDArray[np.int32]:
        """Return the days of a column as ordinals, -1 for a cell that is a problem now."""
        found = np.empty(len(part), dtype=np.int32)
        for at, cell in enumerate(part.cells[column]):
            day = self._ordinal(cell if isinstance(cell, str) else f"{cell:.0f}")
            if isinstance(day, str):
                self._problems.error(part.file, day, int(part.rows[at]), part.written[column])
                day = _UNREAD
            found[at] = day
        return found

    def _ordinal(self, text: str) -> int | str:
        known = self._known.get(text)
        if known is None:
            day = day_of(text)
            known = self._known[text] = day if isinstance(day, str) else day.toordinal()
        return known


def numbers(part: Part, column: str, problems: Problems) -> Floats:
    """Return a column as numbers, not a number for an empty cell and for a column that the table does not have,
    infinite for a cell that is a problem now."""
    cells = part.cells.get(column)
    if cells is None:
        return np.full(len(part), np.nan)
    try:
        found = np.array(cells, dtype=np.float64)
        if not np.isinf(found).any():
            return found
    except ValueError:
        pass
    return np.array([_number(part, column, cells, at, problems) for at in range(len(part))])


def _number(part: Part, column: str, cells: Cells, at: int, problems: Problems) -> float:
    found = number_of(str(cells[at]))
    if isinstance(found, str):
        problems.error(part.file, found, int(part.rows[at]), part.written[column])
        return float("inf")
    return found


def joined(symbols: Sequence[str], files: Sequence[str], parts: Sequence[Sequence[npt.NDArray[np.generic]]]) -> Rows:
    """Return the rows of parts, each a sequence of arrays in the order of the fields of Rows."""
    kinds = (np.int32, np.int32, np.int64, np.int32, *[np.float64] * 6)
    arrays = [
        np.concatenate([part[place] for part in parts]).astype(kind, copy=False) if parts else np.empty(0, kind)
        for place, kind in enumerate(kinds)
    ]
    return Rows(tuple(symbols), tuple(files), *arrays)
