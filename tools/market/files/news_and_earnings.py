"""Headlines and earnings dates of own files, each with the time from which on it was known."""

from __future__ import annotations

import bisect
import datetime as dt
import html
import re
from collections import defaultdict
from collections.abc import Container
from pathlib import Path
from typing import get_args

from chordesk.models.company import EarningsDate, Timing
from chordesk.models.market import Headline
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.tables import Part, Problems, day_of, is_empty, moment_of, number_of, parts_of, plain
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

HEADLINE_COLUMNS = {
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
    for part in parts_of(path, name, HEADLINE_COLUMNS, problems):
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
    cells = {name: str(part.cells[name][at]).strip() for name in HEADLINE_COLUMNS if name in part.cells}
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


# Earnings dates of own files: `earnings.csv` with symbol and date, and the time of day, the day on which the date was
# announced, and earnings per share where they are known.

EARNINGS_COLUMNS = {
    "symbol": ("symbol", "ticker", "sym"),
    "date": ("date", "earningsdate", "reportdate", "day"),
    "timing": ("timing", "timeofday", "time", "when", "session", "hour"),
    "announced": ("announced", "announcedat", "knownat", "known", "announcementdate"),
    "eps_estimate": ("epsestimate", "estimate", "epsestimated"),
    "eps_actual": ("epsactual", "eps", "actual", "reportedeps"),
}
_TIMINGS: dict[str, Timing] = {
    **{plain(name): name for name in get_args(Timing)},
    **dict.fromkeys(("bmo", "beforemarketopen", "beforemarket", "premarket", "am"), "beforeOpen"),
    **dict.fromkeys(("amc", "aftermarketclose", "aftermarket", "postmarket", "pm"), "afterClose"),
    **dict.fromkeys(("dmh", "during", "duringmarket"), "duringSession"),
}
_END_OF_DAY = dt.time(23, 59)


def read_earnings(path: Path, name: str, problems: Problems) -> dict[str, list[EarningsDate]]:
    """Return the dates of a file by symbol. One without a day of announcement was known at the end of its own day: a
    replay does not know it before."""
    found: dict[str, list[EarningsDate]] = defaultdict(list)
    seen: dict[tuple[str, dt.date], int] = {}
    for part in parts_of(path, name, EARNINGS_COLUMNS, problems):
        lacks = [column for column in ("symbol", "date") if column not in part.cells]
        if lacks:
            problems.error(name, f"has no column {', no column '.join(lacks)}", 1)
            return {}
        for at in range(len(part)):
            row = _date(part, at, problems)
            if row is None:
                continue
            line = int(part.rows[at])
            if (first := seen.setdefault((row.symbol, row.date), line)) != line:
                problems.error(name, f"{row.symbol} has a second row of {row.date}; the first is row {first}", line)
            found[row.symbol].append(row)
    return dict(found)


def _date(part: Part, at: int, problems: Problems) -> EarningsDate | None:
    cells = {name: str(part.cells[name][at]).strip() for name in EARNINGS_COLUMNS if name in part.cells}
    row, wrong = int(part.rows[at]), False

    def fault(column: str, reason: str) -> None:
        nonlocal wrong
        wrong = True
        problems.error(part.file, reason, row, part.written[column])

    day = day_of(cells["date"])
    if isinstance(day, str):
        fault("date", day)
        return None
    if not is_symbol(cells["symbol"].upper()):
        fault("symbol", f"{cells['symbol'][:40]!r} is no symbol: {SYMBOL_RULE}")
    timing = cells.get("timing", "")
    if not is_empty(timing) and plain(timing) not in _TIMINGS:
        fault("timing", f"{timing[:40]!r} is no time of day: write bmo, amc or during, or leave it empty")
    figures = {}
    for name in ("eps_estimate", "eps_actual"):
        number = number_of(cells.get(name, ""))
        if isinstance(number, str):
            fault(name, number)
        else:
            figures[name] = None if number != number else number
    known_at = dt.datetime.combine(day, _END_OF_DAY, NEW_YORK)
    if not is_empty(cells.get("announced", "")):
        moment = moment_of(cells["announced"], NEW_YORK)
        if isinstance(moment, str):
            fault("announced", moment)
        elif isinstance(moment, dt.datetime):
            known_at = moment
        else:
            known_at = dt.datetime.combine(moment, _END_OF_DAY, NEW_YORK)
    if wrong:
        return None
    return EarningsDate(
        symbol=cells["symbol"].upper(),
        date=day,
        timing=None if is_empty(timing) else _TIMINGS[plain(timing)],
        known_at=known_at,
        **figures,
    )
