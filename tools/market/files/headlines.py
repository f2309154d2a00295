"""Headlines of own files, `headlines.csv` or `headlines.jsonl`: other people's text, each with the time from which on
it was known."""

from __future__ import annotations

import bisect
import datetime as dt
import html
import re
from collections import defaultdict
from collections.abc import Container
from pathlib import Path

from chordesk.models.market import Headline
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.reading.cells import is_empty, moment_of
from chordesk.tools.market.files.reading.parts import parts_of
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import Part

NAMES = {
    "symbol": ("symbol", "ticker", "sym"),
    "time": ("time", "publishedat", "published", "datetime", "timestamp", "date"),
    "headline": ("headline", "title"),
    "source": ("source", "publisher", "provider"),
    "url": ("url", "link"),
}
_NEEDED = ("symbol", "time", "headline")
_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|&(?:[a-z]+|#\d+);")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")

Headlines = dict[str, list[Headline]]


def read_headlines(path: Path, name: str, with_bars: Container[str], problems: Problems) -> Headlines:
    """Return the headlines of a file by symbol, the oldest first. Markup is taken out of them.

    A headline of a day, or of 00:00:00, was published at a time that is not known: it counts from the following
    session's open on.
    """
    found: Headlines = defaultdict(list)
    for part in parts_of(path, name, NAMES, problems):
        lacks = [column for column in _NEEDED if column not in part.cells]
        if lacks and len(part):
            problems.error(name, f"has no column {', no column '.join(lacks)}", int(part.rows[0]) if lacks else None)
            return {}
        for at in range(len(part)):
            headline = _headline(part, at, problems)
            if headline is not None:
                found[headline.symbol].append(headline)
    for symbol in sorted(symbol for symbol in found if symbol not in with_bars):
        problems.warn(name, f"{symbol} has {len(found[symbol])} headlines and no bars", column="symbol")
    for rows in found.values():
        rows.sort(key=lambda row: row.published_at)
    return dict(found)


def latest(rows: list[Headline], now: dt.datetime, limit: int) -> list[Headline]:
    """Return the newest headlines that were known by now, the newest first."""
    end = bisect.bisect_right(rows, now, key=lambda row: row.published_at)
    return rows[max(end - limit, 0) : end][::-1]


def _headline(part: Part, at: int, problems: Problems) -> Headline | None:
    row = int(part.rows[at])
    cells = {name: str(part.cells[name][at]).strip() for name in NAMES if name in part.cells}
    moment = moment_of(cells["time"])
    if isinstance(moment, str):
        problems.error(part.file, moment, row, part.written["time"])
        return None
    if is_empty(cells["symbol"]) or not cells["headline"]:
        problems.warn(part.file, f"no {'symbol' if is_empty(cells['symbol']) else 'headline'}, and is left out", row)
        return None
    text = cells["headline"]
    if _MARKUP.search(text):
        problems.warn(part.file, "has markup, which is taken out", row, part.written["headline"])
        text = _TAG.sub("", html.unescape(_TAG.sub("", text)))
    source, url = cells.get("source", ""), cells.get("url", "")
    return Headline(
        symbol=cells["symbol"].upper(),
        headline=text,
        source="not stated" if is_empty(source) else source,
        published_at=_known_from(moment),
        url=None if is_empty(url) else url,
    )


def _known_from(moment: dt.datetime | dt.date) -> dt.datetime:
    if isinstance(moment, dt.datetime) and moment.time() != dt.time():
        return moment
    day = moment.date() if isinstance(moment, dt.datetime) else moment
    hours = exchange_hours()
    after = bisect.bisect_right(hours.sessions, day)
    if after == len(hours.sessions):  # beyond the exchange's calendar, so beyond any day that can be replayed
        return dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), dt.UTC)
    return hours.open_of(hours.sessions[after])
