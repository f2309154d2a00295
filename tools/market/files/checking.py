"""A check of a whole data folder: every file is read, and each problem has its place."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.market.files.bars import PriceKind
from tools.market.files.data import Prices, read_listings, read_prices
from tools.market.files.folder import DataFolder, data_folder
from tools.market.files.problems import Problems


@dataclass(frozen=True, slots=True)
class FolderReport:
    """What a folder has, a line each, and its problems. about: where the data come from, if the folder states it."""

    folder: Path
    about: str | None
    contents: tuple[str, ...]
    problems: Problems


def check_folder(path: Path, kind: PriceKind, most: int) -> FolderReport:
    """Return the report on a folder. most: problems that are kept, of each file and level.

    Raises SettingError when there is no such folder, NotConfigured when a file needs an extra.
    """
    problems = Problems(most)
    folder = data_folder(path, problems)
    prices = read_prices(folder, kind, problems)
    return FolderReport(path, folder.about, tuple(_contents(folder, prices, problems)), problems)


def _contents(folder: DataFolder, prices: Prices, problems: Problems) -> Iterator[str]:
    symbols = prices.columns.symbols.tolist()
    if symbols:
        yield f"bars: {_bars(prices)}"
    listings = read_listings(folder, symbols, problems)
    if listings:
        yield f"universe: {len(listings)} symbols, {len({one.sector for one in listings.values()} - {None})} sectors"


def _bars(prices: Prices) -> str:
    columns = prices.columns
    first, last = (dt.date.fromordinal(int(day)) for day in (columns.day.min(), columns.day.max()))
    kinds = [
        *(["adjusted prices"] if prices.adjusted.any() else []),
        *(["raw prices"] if not prices.adjusted.all() else []),
    ]
    counted = f"{len(columns.symbols)} symbols, {len(columns.day):,} bars, {first} to {last}"
    return f"{counted}, {' and '.join(kinds)}"
