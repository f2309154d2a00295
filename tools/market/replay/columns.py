"""Daily prices of a market with a clock that stands still: arrays of all days, and their copy in the cache."""

from __future__ import annotations

import datetime as dt
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import structlog

from chordesk.models.files import replacing
from chordesk.models.market import Listing
from chordesk.tools.market.protocol import Floats

log = structlog.get_logger(__name__)


class Columns(NamedTuple):
    """Cleaned rows as arrays, sorted by symbol and day; symbols[i] owns rows start[i] up to start[i + 1].

    day holds proleptic ordinals (datetime.date.toordinal); volume is in shares. Open, high, low and volume are not a
    number where the source has none.
    """

    symbols: npt.NDArray[np.str_]
    start: npt.NDArray[np.int64]
    day: npt.NDArray[np.int32]
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: Floats


class ReplayData:
    """All rows of a data set, the future included: only a market with a clock may look into it.

    lost: sessions of the exchange between the first and the last without a bar of any name. adjusted: symbols whose
    prices before a split or a dividend were brought to the level after it.
    """

    def __init__(
        self,
        columns: Columns,
        listings: Mapping[str, Listing],
        lost: Sequence[dt.date] = (),
        adjusted: frozenset[str] = frozenset(),
    ) -> None:
        self.columns = columns
        self.listings = listings
        self.lost = tuple(lost)
        self.adjusted = adjusted
        self.symbols: tuple[str, ...] = tuple(columns.symbols.tolist())
        self.sessions = tuple(dt.date.fromordinal(day) for day in np.unique(columns.day).tolist())
        self._place = {symbol: at for at, symbol in enumerate(self.symbols)}

    def rows(self, symbol: str, until: dt.date) -> slice:
        """Return the rows of a symbol up to and with that day; empty when it has none, or is unknown."""
        at = self._place.get(symbol)
        if at is None:
            return slice(0, 0)
        first, end = int(self.columns.start[at]), int(self.columns.start[at + 1])
        known = int(np.searchsorted(self.columns.day[first:end], until.toordinal(), side="right"))
        return slice(first, first + known)

    def with_columns(self, columns: Columns) -> ReplayData:
        """Return the same data set with other rows."""
        return ReplayData(columns, self.listings, self.lost, self.adjusted)


def read_cache(path: Path) -> dict[str, npt.NDArray[np.generic]] | None:
    """Return the arrays of a cache file by name; None where there is none that can be read."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        log.warning("replay.cache_unreadable", path=str(path), error=str(error))
        return None


def write_cache(path: Path, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
    """Write the arrays to a cache file; a failure is logged, for the data can be read again without it."""
    try:
        with replacing(path) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        log.warning("replay.cache_not_written", path=str(path), error=str(error))


def columns_in(arrays: Mapping[str, npt.NDArray[np.generic]] | None) -> Columns | None:
    """Return the columns among a cache's arrays; None where one is missing."""
    if arrays is None or not set(Columns._fields) <= arrays.keys():
        return None
    return Columns(*(arrays[name] for name in Columns._fields))  # type: ignore[arg-type]
