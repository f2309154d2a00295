"""The sample news-2020: headlines of Nasdaq names, with the adjusted closes of those that have prices."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from chordesk.models.errors import UsageError
from chordesk.tools.market.clock import NEW_YORK
from chordesk.tools.market.samples.archives import member, members
from chordesk.tools.market.samples.catalog import NASDAQ_NEWS, PackageFile
from chordesk.tools.market.samples.writing import Table

NEWS = "nasdaq_news/data/*.json"
CLOSES = "portfolio_backtester/data/SP500 *[0-9].csv"
VOLUMES = "portfolio_backtester/data/SP500 * volume.csv"
FIRST_BAR, FIRST_HEADLINE = dt.date(2017, 1, 1), dt.date(2019, 1, 1)


def tables(files: Mapping[PackageFile, Path]) -> Iterator[Table]:
    """Yield the bars, the universe and the headlines of the names that have both."""
    news, prices = _split(files)
    headlines = {name: rows for name, rows in _headlines(news) if rows}
    closes, volumes = (_columns(member(prices, pattern), prices) for pattern in (CLOSES, VOLUMES))
    symbols = sorted(headlines.keys() & closes.keys())
    if not symbols:
        raise UsageError(f"{news.name} and {prices.name} have no name in common", remedy="fetch them again")
    for symbol in symbols:
        volume = volumes.get(symbol, {})
        rows = [(day, close, volume.get(day, "")) for day, close in closes[symbol].items()]
        yield Table(f"bars/{symbol}.csv", ("date", "adj close", "volume"), rows)
    last = max(day for symbol in symbols for day in closes[symbol])
    kept = [row for symbol in symbols for row in headlines[symbol] if str(row[1])[:10] <= last]
    yield Table("universe.csv", ("symbol",), [(symbol,) for symbol in symbols])
    yield Table("headlines.csv", ("symbol", "time", "headline", "source", "url"), kept)


def _split(files: Mapping[PackageFile, Path]) -> tuple[Path, Path]:
    news = next(path for wanted, path in files.items() if wanted.package == NASDAQ_NEWS.package)
    prices = next(path for wanted, path in files.items() if wanted.package != NASDAQ_NEWS.package)
    return news, prices


def _headlines(path: Path) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    for name, content in members(path, NEWS):
        try:
            rows = sorted({_headline(row) for row in orjson.loads(content)}, key=str)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path.name}: {name} has another layout: {error!r}", remedy="fetch it again") from None
        yield Path(name).stem, [row for row in rows if str(row[1]) >= FIRST_HEADLINE.isoformat()]


def _headline(row: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a headline as a line; its time is New York's, and one of 00:00:00 is a day alone."""
    moment = dt.datetime.fromisoformat(row["publishedDate"])
    time = moment.date().isoformat() if moment.time() == dt.time() else moment.replace(tzinfo=NEW_YORK).isoformat(" ")
    return row["symbol"], time, " ".join(row["title"].split()), row["site"], row["url"]


def _columns(content: bytes, path: Path) -> dict[str, dict[str, str]]:
    """Return a wide table, a day a line and a symbol a column, as cells by symbol and day."""
    reader = csv.reader(io.StringIO(content.decode("utf-8")))
    header = next(reader)
    found: dict[str, dict[str, str]] = {symbol: {} for symbol in header[1:]}
    for line in reader:
        day = line[0][:10]
        if day >= FIRST_BAR.isoformat():
            for symbol, cell in zip(header[1:], line[1:], strict=True):
                if cell:
                    found[symbol][day] = cell
    if not any(found.values()):
        raise UsageError(f"{path.name} has no prices since {FIRST_BAR}", remedy="fetch it again")
    return found
