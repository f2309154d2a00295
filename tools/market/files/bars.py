"""Daily bars of own files: one file a symbol in `bars/`, or one long table `bars.csv` or `bars.parquet`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.files.reading.parts import parts_of
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import Part
from chordesk.tools.market.files.rows import PRICES, Days, Rows, joined, numbers
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

PriceKind = Literal["auto", "raw", "adjusted"]
Array = npt.NDArray[np.generic]
_CLOSES = ("close", "adjusted")

# Our names, and those of files, the preferred first.
NAMES = {
    "day": ("date", "day", "datetime", "timestamp", "time", "tradedate", "indexlevel0", "unnamed0", ""),
    "symbol": ("symbol", "ticker", "sym", "name"),
    "open": ("open", "openprice", "o"),
    "high": ("high", "highprice", "h"),
    "low": ("low", "lowprice", "l"),
    "close": ("close", "closeprice", "closelast", "c"),
    "adjusted": ("adjclose", "adjustedclose", "closeadj", "closeadjusted"),
    "volume": ("volume", "vol", "v"),
}


class BarReader:
    """Reader of the files of bars, one after another."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._days = Days(problems)
        self._symbols: dict[str, int] = {}
        self._files: list[str] = []
        self._parts: list[Sequence[Array]] = []
        self.columns: dict[str, frozenset[str]] = {}

    def read(self, path: Path, name: str, symbol: str | None) -> None:
        """Read a file. symbol: of a file without a column for it; None for a long table, which needs one."""
        self._files.append(name)
        for part in parts_of(path, name, NAMES, self._problems):
            if name not in self.columns:
                self.columns[name] = frozenset(part.cells)
                if not self._can_be_read(part, symbol):
                    return
            self._take(part, symbol)
        if name in self.columns and not any(self._is_of(place, name) for place in range(len(self._parts))):
            self._problems.error(name, "has no row below its header")

    def rows(self) -> Rows:
        """Return all rows that have a day and a symbol."""
        rows = joined(list(self._symbols), self._files, self._parts)
        return rows.taken((rows.day >= 0) & (rows.owner >= 0))

    def _is_of(self, place: int, name: str) -> bool:
        files = self._parts[place][1]
        return bool(len(files)) and self._files[int(files[0])] == name

    def _can_be_read(self, part: Part, symbol: str | None) -> bool:
        has, lacks = part.cells.keys(), []
        lacks += ["date"] if "day" not in has else []
        lacks += ["close (or adj close)"] if not has & {"close", "adjusted"} else []
        lacks += ["symbol"] if symbol is None and "symbol" not in has else []
        ranged = [name for name in ("open", "high", "low") if name in has]
        if lacks:
            known = ", ".join(part.written.values()) or "none that is known"
            self._problems.error(part.file, f"has no column {', no column '.join(lacks)}; its columns are {known}", 1)
            return False
        if ranged and len(ranged) < 3:
            lacking = " and ".join(name for name in ("open", "high", "low") if name not in ranged)
            reason = f"has {' and '.join(ranged)} and no {lacking}; give all three, or the close alone"
            self._problems.error(part.file, reason, 1)
            return False
        return True

    def _take(self, part: Part, symbol: str | None) -> None:
        if not len(part):
            return
        figures = [numbers(part, name, self._problems) for name in (*PRICES, "adjusted", "volume")]
        place = np.full(len(part), len(self._files) - 1)
        self._parts.append([self._owners(part, symbol), place, part.rows, self._days.read(part, "day"), *figures])

    def _owners(self, part: Part, symbol: str | None) -> Array:
        if "symbol" not in part.cells:
            return np.full(len(part), self._owner(symbol or "", part, None))
        return np.array([self._owner(str(cell), part, at) for at, cell in enumerate(part.cells["symbol"])])

    def _owner(self, text: str, part: Part, at: int | None) -> int:
        symbol = text.strip().upper()
        if symbol not in self._symbols:
            if not is_symbol(symbol):
                row = None if at is None else int(part.rows[at])
                reason = f"{text[:40]!r} is no symbol: {SYMBOL_RULE}"
                self._problems.error(part.file, reason, row, part.written.get("symbol"))
                return -1
            self._symbols[symbol] = len(self._symbols)
        return self._symbols[symbol]


def priced(
    rows: Rows, columns: Mapping[str, frozenset[str]], kind: PriceKind, problems: Problems
) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Return (the rows with the prices that are asked for, whether each is adjusted). columns: of each file.

    raw         open to close as written
    adjusted    open to close times adjusted close / close; as written in a file without adjusted closes, which then
                counts as adjusted
    auto        as written where the file has closes, else its adjusted closes alone

    A file without what is asked for is an error.
    """
    plain, scaled = (rows.of_files_with(name, columns) for name in _CLOSES)
    alone = ~plain
    for place in np.unique(rows.file[alone]).tolist():
        if kind == "raw":
            problems.error(rows.files[place], "has adjusted closes alone; set DESK_DATA_PRICES to adjusted or auto")
        elif "open" in columns[rows.files[place]]:
            problems.warn(rows.files[place], "open, high and low are not used: of closes it has adjusted ones alone")
    if kind == "raw":
        return rows, np.zeros(len(rows.day), dtype=bool)
    factor = np.where(alone, np.nan, 1.0)
    if kind == "adjusted":
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(plain & scaled, rows.adjusted / rows.close, factor)
    found = {name: getattr(rows, name) * factor for name in ("open", "high", "low")}
    close = np.where(alone, rows.adjusted, rows.close * factor)
    return rows._replace(**found, close=close), alone | (kind == "adjusted")
