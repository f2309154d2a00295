"""A folder of own data, loaded: read and checked once a version, and from then on out of the data folder's cache."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chordesk.models.company import EarningsDate
from chordesk.models.errors import SettingError
from chordesk.models.market import Listing
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.bar_checks import checked
from chordesk.tools.market.files.bars import BarReader, PriceKind, priced
from chordesk.tools.market.files.chain_checks import check_chains
from chordesk.tools.market.files.chains import ChainTable, read_chains
from chordesk.tools.market.files.earnings import read_earnings
from chordesk.tools.market.files.folder import DataFolder, data_folder, unreadable, version_of
from chordesk.tools.market.files.headlines import Headlines, read_headlines
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.rows import PRICES
from chordesk.tools.market.files.universe import read_universe
from chordesk.tools.market.replay.columns import Columns, ReplayData, columns_in, read_cache, write_cache

# Raised when the reading or the layout of the cached arrays changes.
CACHE_LAYOUT = 1
_CACHES_KEPT = 4


class Prices(NamedTuple):
    """Daily bars of a folder. adjusted: by symbol; lost: ordinals of sessions without a bar of any symbol."""

    columns: Columns
    adjusted: np.ndarray[tuple[int], np.dtype[np.bool_]]
    lost: np.ndarray[tuple[int], np.dtype[np.int32]]


class FilesData(ReplayData):
    """A data folder's bars and listings, the future included. members: of the universe; version: of the content,
    its prices read as the kind states."""

    def __init__(
        self, folder: DataFolder, version: str, kind: PriceKind, prices: Prices, listings: Mapping[str, Listing]
    ) -> None:
        lost = [dt.date.fromordinal(day) for day in prices.lost.tolist()]
        adjusted = frozenset(prices.columns.symbols[prices.adjusted].tolist())
        super().__init__(prices.columns, listings, lost, adjusted)
        self.folder = folder
        self.version = version
        self.kind = kind
        self._prices = prices
        self.members = frozenset(listings or self.symbols)

    def headlines(self) -> Headlines | None:
        """Return the folder's headlines by symbol, read when first asked for; None without a file of them."""
        if self.folder.headlines is None:
            return None
        return _headlines(self.folder, self.version, self.kind, self.symbols)

    def chains(self) -> ChainTable | None:
        """Return the folder's option quotes, read when first asked for; None without a file of them."""
        return _chains(self.folder, self.version, self.kind) if self.folder.chains is not None else None

    def earnings(self) -> dict[str, list[EarningsDate]] | None:
        """Return the folder's earnings dates by symbol, read when first asked for; None without a file of them."""
        return _earnings(self.folder, self.version, self.kind) if self.folder.earnings is not None else None

    def with_columns(self, columns: Columns) -> FilesData:
        kept = np.isin(self.columns.symbols, columns.symbols)
        prices = self._prices._replace(columns=columns, adjusted=self._prices.adjusted[kept])
        return FilesData(self.folder, self.version, self.kind, prices, self.listings)


def files_data(settings: Settings) -> FilesData:
    """Return the data of the settings' folder as it is now; it is read again when a file has changed.

    Raises SettingError when there is no such folder, or it has errors; NotConfigured when it needs an extra.
    """
    problems = Problems()
    folder = data_folder(settings.data, problems)
    require_none(folder, problems)
    try:
        version = version_of(folder, settings.data_prices)
    except OSError as error:
        raise unreadable(folder.path, error) from None
    return _loaded(folder, version, settings.data_prices, settings.home)


def require_none(folder: DataFolder, problems: Problems) -> None:
    """Raise SettingError with the first error, and the number of the others."""
    if problems.errors:
        more = f", and {problems.errors - 1} more errors" if problems.errors > 1 else ""
        remedy = f"`desk data check {folder.path}` lists them"
        raise SettingError(f"DESK_DATA={folder.path} cannot be used: {problems.of('error')[0]}{more}", remedy=remedy)


def _require_unchanged(folder: DataFolder, version: str, kind: PriceKind) -> None:
    """Raise SettingError when a file has changed since the version was taken, such as a file that is read later than
    the bars: a run on that version would see what is not of it."""
    try:
        found = version_of(folder, kind)
    except OSError as error:
        raise unreadable(folder.path, error) from None
    if found != version:
        reason = f"a file of DESK_DATA={folder.path} has changed: the data here are {found}, those in use are {version}"
        raise SettingError(reason, remedy="put the former files back, or open a new run on these")


# version: of the files, so that they are read again when one has changed.
@lru_cache(maxsize=2)
def _headlines(folder: DataFolder, version: str, kind: PriceKind, symbols: tuple[str, ...]) -> Headlines:
    problems, path = Problems(), folder.headlines
    assert path is not None, "asked for with a file alone"
    found = read_headlines(path, folder.name(path), frozenset(symbols), problems)
    require_none(folder, problems)
    _require_unchanged(folder, version, kind)
    return found


@lru_cache(maxsize=2)
def _chains(folder: DataFolder, version: str, kind: PriceKind) -> ChainTable:
    problems, path = Problems(), folder.chains
    assert path is not None, "asked for with a file alone"
    found = read_chains(path, folder.name(path), problems)
    check_chains(found, folder.name(path), problems)
    require_none(folder, problems)
    _require_unchanged(folder, version, kind)
    return found


@lru_cache(maxsize=2)
def _earnings(folder: DataFolder, version: str, kind: PriceKind) -> dict[str, list[EarningsDate]]:
    problems, path = Problems(), folder.earnings
    assert path is not None, "asked for with a file alone"
    found = read_earnings(path, folder.name(path), problems)
    require_none(folder, problems)
    _require_unchanged(folder, version, kind)
    return found


@lru_cache(maxsize=2)
def _loaded(folder: DataFolder, version: str, kind: PriceKind, home: Path) -> FilesData:
    kept = home / "cache" / f"files-{version}-{CACHE_LAYOUT}.npz"
    problems = Problems()
    prices = _cached(kept)
    if prices is None:
        prices = read_prices(folder, kind, problems)
        require_none(folder, problems)
        _require_unchanged(folder, version, kind)  # before it is kept under that version
        write_cache(kept, {**prices.columns._asdict(), "adjusted": prices.adjusted, "lost": prices.lost})
        _forget_others(kept)
    listings = read_listings(folder, prices.columns.symbols.tolist(), problems)
    require_none(folder, problems)
    return FilesData(folder, version, kind, prices, listings)


def read_prices(folder: DataFolder, kind: PriceKind, problems: Problems) -> Prices:
    """Return the bars of a folder as they are asked for. With errors in `problems` they cannot be used."""
    reader = BarReader(problems)
    for symbol, path in folder.symbols:
        reader.read(path, folder.name(path), symbol)
    if folder.bars is not None:
        reader.read(folder.bars, folder.name(folder.bars), None)
    rows, adjusted = priced(reader.rows(), reader.columns, kind, problems)
    rows, adjusted = checked(rows, reader.columns, adjusted, problems)
    if not len(rows.day) and not problems.errors:
        problems.error("bars", "no bar with a price")
    order = np.argsort(np.array(rows.symbols, dtype=np.str_)) if rows.symbols else np.empty(0, dtype=np.int64)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    sorted_by = np.argsort(rank[rows.owner], kind="stable")
    rows, adjusted = rows.taken(sorted_by), adjusted[sorted_by]
    first = np.flatnonzero(np.r_[True, rows.owner[1:] != rows.owner[:-1]]) if len(rows.day) else np.empty(0, int)
    symbols = np.array(rows.symbols, dtype=np.str_)[rows.owner[first]] if len(first) else np.empty(0, dtype=np.str_)
    figures = [np.ascontiguousarray(getattr(rows, name)) for name in (*PRICES, "volume")]
    columns = Columns(symbols, np.r_[first, len(rows.day)], rows.day, *figures)
    return Prices(columns, adjusted[first], _lost(np.unique(rows.day)))


def read_listings(folder: DataFolder, symbols: Sequence[str], problems: Problems) -> dict[str, Listing]:
    """Return the listings of the universe file by symbol; none without one."""
    if folder.universe is None:
        return {}
    return read_universe(folder.universe, folder.name(folder.universe), frozenset(symbols), problems)


def _lost(days: np.ndarray[tuple[int], np.dtype[np.int32]]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    if not len(days):
        return days
    sessions = np.array([day.toordinal() for day in exchange_hours().sessions], dtype=np.int32)
    first, end = np.searchsorted(sessions, [days[0], days[-1] + 1])
    return np.setdiff1d(sessions[first:end], days)


def _cached(path: Path) -> Prices | None:
    arrays = read_cache(path)
    columns = columns_in(arrays)
    if arrays is None or columns is None or not {"adjusted", "lost"} <= arrays.keys():
        return None
    return Prices(columns, arrays["adjusted"], arrays["lost"])  # type: ignore[arg-type]


def _forget_others(newest: Path) -> None:
    """Delete the oldest caches of own data but a few."""
    with suppress(OSError):
        others = sorted(newest.parent.glob("files-*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in others[_CACHES_KEPT:]:
            path.unlink(missing_ok=True)
