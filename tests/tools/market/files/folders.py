"""Data folders for tests, written as a user would write them."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Iterable, Sequence
from pathlib import Path

from chordesk.models.exchanges import HOME
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.market import FilesMarket, build
from chordesk.tools.market.replay.market import ReplayData

HEADER = ("date", "open", "high", "low", "close", "volume")
Row = Sequence[object]


def write_table(path: Path, header: Sequence[str], rows: Iterable[Row], delimiter: str = ",") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def sessions(first: str, count: int, exchange: str = HOME) -> tuple[dt.date, ...]:
    """An exchange's sessions from a day on."""
    start = dt.date.fromisoformat(first)
    return tuple(day for day in exchange_hours(exchange).sessions if day >= start)[:count]


def walk(days: Sequence[dt.date], start: float = 100.0) -> list[Row]:
    """Bars that rise and fall a little, a row a day."""
    rows: list[Row] = []
    for at, day in enumerate(days):
        close = round(start * (1 + 0.01 * ((at * 7) % 11 - 5)), 2)
        rows.append((day, close - 0.5, close + 1, close - 1, close, 1_000_000 + at))
    return rows


def write_replayed(folder: Path, data: ReplayData, symbols: Sequence[str]) -> Path:
    """Write names of the replay's data set as a folder of own data, one file a symbol, with their sectors."""
    columns, listings = data.columns, []
    for symbol in symbols:
        rows = data.rows(symbol, dt.date.max)
        days = [dt.date.fromordinal(day) for day in columns.day[rows].tolist()]
        figures = [getattr(columns, name)[rows].tolist() for name in HEADER[1:]]
        write_table(folder / "bars" / f"{symbol}.csv", HEADER, zip(days, *figures, strict=True))
        listing = data.listings.get(symbol)
        listings.append((symbol, *((listing.name, listing.sector, listing.industry) if listing else ("", "", ""))))
    write_table(folder / "universe.csv", ("Symbol", "Name", "Sector", "Industry"), listings)
    return folder


def settings(home: Path, folder: Path | None, **changes: object) -> Settings:
    return Settings(**{"home": home, "market": "files", "data": folder, **changes})


def market(home: Path, folder: Path, day: dt.date, **changes: object) -> FilesMarket:
    return build(settings(home, folder, replay_date=day, **changes), day)
