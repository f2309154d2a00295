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
from chordesk.tools.market.files.tables import (
    Column,
    Problems,
    Unreadable,
    day_of,
    is_empty,
    moment_of,
    number_of,
    plain,
    rows_of,
    symbol_of,
    text_of,
)

HEADLINE_COLUMNS = {
    "symbol": Column(("symbol", "ticker", "sym"), lambda text: (text_of(text) or "").upper(), required=True),
    "time": Column(("time", "publishedat", "published", "datetime", "timestamp", "date"), moment_of, required=True),
    "headline": Column(("headline", "title"), str, required=True),
    "source": Column(("source", "publisher", "provider")),
    "url": Column(("url", "link")),
}
_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|&(?:[a-z]+|#\d+);")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")

Headlines = dict[str, list[Headline]]


def read_headlines(path: Path, name: str, with_bars: Container[str], problems: Problems) -> Headlines:
    """Return the headlines of a file by symbol, the oldest first. Markup is taken out of them. A headline of a day, or
    of 00:00:00, was published at a time that is not known: it counts from the following session's open on."""
    found: Headlines = defaultdict(list)
    for row, values, written in rows_of(path, name, HEADLINE_COLUMNS, problems):
        symbol, text = values["symbol"], values["headline"]
        if not symbol or not text:
            problems.warn(name, f"no {'headline' if symbol else 'symbol'}, and is left out", row)
            continue
        if _MARKUP.search(text):
            problems.warn(name, "has markup, which is taken out", row, written["headline"])
            text = _TAG.sub("", html.unescape(_TAG.sub("", text)))
        at, source = _known_from(values["time"]), values["source"] or "not stated"
        found[symbol].append(Headline(symbol=symbol, headline=text, source=source, published_at=at, url=values["url"]))
    for symbol in sorted(symbol for symbol in found if symbol not in with_bars):
        problems.warn(name, f"{symbol} has {len(found[symbol])} headlines and no bars", column="symbol")
    for rows in found.values():
        rows.sort(key=lambda row: row.published_at)
    return dict(found)


def latest(rows: list[Headline], now: dt.datetime, limit: int) -> list[Headline]:
    end = bisect.bisect_right(rows, now, key=lambda row: row.published_at)
    return rows[max(end - limit, 0) : end][::-1]


def _known_from(moment: dt.datetime | dt.date) -> dt.datetime:
    if isinstance(moment, dt.datetime) and moment.time() != dt.time():
        return moment
    day = moment.date() if isinstance(moment, dt.datetime) else moment
    hours = exchange_hours()
    after = bisect.bisect_right(hours.sessions, day)
    if after == len(hours.sessions):  # beyond the exchange's calendar, so beyond any day that can be replayed
        return dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), dt.UTC)
    return hours.open_of(hours.sessions[after])


_TIMINGS: dict[str, Timing] = {
    **{plain(name): name for name in get_args(Timing)},
    **dict.fromkeys(("bmo", "beforemarketopen", "beforemarket", "premarket", "am"), "beforeOpen"),
    **dict.fromkeys(("amc", "aftermarketclose", "aftermarket", "postmarket", "pm"), "afterClose"),
    **dict.fromkeys(("dmh", "during", "duringmarket"), "duringSession"),
}
_END_OF_DAY = dt.time(23, 59)


def _timing(text: str) -> Timing | None:
    if not is_empty(text) and plain(text) not in _TIMINGS:
        raise Unreadable(f"{text[:40]!r} is no time of day: write bmo, amc or during, or leave it empty")
    return _TIMINGS.get(plain(text))


def _announced(text: str) -> dt.datetime | None:
    """Return the moment of an announcement; one of a day is known at its end."""
    if is_empty(text):
        return None
    moment = moment_of(text, NEW_YORK)
    return moment if isinstance(moment, dt.datetime) else dt.datetime.combine(moment, _END_OF_DAY, NEW_YORK)


EARNINGS_COLUMNS = {
    "symbol": Column(("symbol", "ticker", "sym"), symbol_of, required=True),
    "date": Column(("date", "earningsdate", "reportdate", "day"), day_of, required=True),
    "timing": Column(("timing", "timeofday", "time", "when", "session", "hour"), _timing),
    "known_at": Column(("announced", "announcedat", "knownat", "known", "announcementdate"), _announced),
    "eps_estimate": Column(("epsestimate", "estimate", "epsestimated"), number_of),
    "eps_actual": Column(("epsactual", "eps", "actual", "reportedeps"), number_of),
}


def read_earnings(path: Path, name: str, problems: Problems) -> dict[str, list[EarningsDate]]:
    """Return the dates of a file by symbol. One without a day of announcement was known at the end of its own day: a
    replay does not know it before."""
    found: dict[str, list[EarningsDate]] = defaultdict(list)
    seen: dict[tuple[str, dt.date], int] = {}
    for row, values, _ in rows_of(path, name, EARNINGS_COLUMNS, problems):
        symbol, day = values["symbol"], values["date"]
        if (first := seen.setdefault((symbol, day), row)) != row:
            problems.error(name, f"{symbol} has a second row of {day}; the first is row {first}", row)
        known_at = values["known_at"] or dt.datetime.combine(day, _END_OF_DAY, NEW_YORK)
        found[symbol].append(EarningsDate(**{**values, "known_at": known_at}))
    return dict(found)
