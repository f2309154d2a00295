"""A check of a whole data folder: every file is read, and each problem has its place."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chordesk.tools.market.files.bars import PriceKind
from chordesk.tools.market.files.chain_checks import check_chains
from chordesk.tools.market.files.chains import read_chains
from chordesk.tools.market.files.data import Prices, read_listings, read_prices
from chordesk.tools.market.files.earnings import read_earnings
from chordesk.tools.market.files.folder import DataFolder, data_folder
from chordesk.tools.market.files.headlines import read_headlines
from chordesk.tools.market.files.reading.problems import Problems


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
    if folder.headlines is not None:
        headlines = read_headlines(folder.headlines, folder.name(folder.headlines), frozenset(symbols), problems)
        times = [row.published_at for rows in headlines.values() for row in rows]
        if times:
            yield f"headlines: {len(times):,} of {len(headlines)} symbols, {_span(min(times), max(times))}"
    if folder.chains is not None:
        yield from _chains(folder.chains, folder, problems)
    if folder.earnings is not None:
        earnings = read_earnings(folder.earnings, folder.name(folder.earnings), problems)
        yield f"earnings dates: {sum(map(len, earnings.values())):,} of {len(earnings)} symbols"


def _chains(path: Path, folder: DataFolder, problems: Problems) -> Iterator[str]:
    table = read_chains(path, folder.name(path), problems)
    check_chains(table, folder.name(path), problems)
    if len(table.at):
        span = _span(table.time_of(int(table.at.argmin())), table.time_of(int(table.at.argmax())))
        counted = f"{len(table.at):,} quotes of {len(table.contracts):,} contracts"
        yield f"chains: {counted} on {', '.join(table.roots[:9])}, {span}"


def _span(first: dt.datetime, last: dt.datetime) -> str:
    return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"


def _bars(prices: Prices) -> str:
    columns = prices.columns
    first, last = (dt.date.fromordinal(int(day)) for day in (columns.day.min(), columns.day.max()))
    kinds = [
        *(["adjusted prices"] if prices.adjusted.any() else []),
        *(["raw prices"] if not prices.adjusted.all() else []),
    ]
    counted = f"{len(columns.symbols)} symbols, {len(columns.day):,} bars, {first} to {last}"
    return f"{counted}, {' and '.join(kinds)}"
