"""Candles of a venue, page by page, each checked: what a venue leaves out is found and said, never filled in.

A venue may cap a page silently, from either end: Binance gives the first thousand after a time, Kraken the last 720
whatever is asked. So a page is never taken for the whole: as long as a page brings new days before the first or after
the last one that is known, another is asked for.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from chordesk.plugins import MarketError, MarketUnavailable

from .venue import Venue, VenueSilent

PAGE = 1000
_DAY_MS = 86_400_000
_MOST_PAGES = 20
Rows: TypeAlias = list[list[Any]]  # of each candle: its day, open, high, low, close, volume


def daily(venue: Venue, symbol: str, last: dt.date, count: int) -> Rows:
    """Return the candles of at most so many days that end with `last`, in ascending order. Raises MarketError where a
    candle is wrong or there is none, MarketUnavailable where the venue's candles end before `last`."""
    first = last - dt.timedelta(days=count - 1)
    found: dict[dt.date, list[Any]] = {}
    since = first
    for _ in range(_MOST_PAGES):
        fresh = _page(venue, symbol, since, found)
        if not fresh or max(found) >= last:
            break
        since = max(found) + dt.timedelta(days=1)
    else:
        raise VenueSilent(f"{venue.title}'s candles of {symbol} do not end", remedy="try again in a minute")
    # A page that was cut from the front: an older one may be there.
    while found and min(found) > first and _page(venue, symbol, max(first, _before(found)), found):
        pass
    kept = sorted(day for day in found if first <= day <= last)
    if not kept:
        raise MarketError(f"{venue.title} has no candle of {symbol} up to {last}", remedy="leave it out")
    if kept[-1] < last:
        reason = f"{venue.title}'s candles of {symbol} end on {kept[-1]}, and {last} has ended"
        raise MarketUnavailable(reason, remedy="try again in some minutes; leave it out if it stays so")
    return [[day.isoformat(), *found[day]] for day in kept]


def _before(found: dict[dt.date, list[Any]]) -> dt.date:
    return min(found) - dt.timedelta(days=PAGE)


def _page(venue: Venue, symbol: str, since: dt.date, found: dict[dt.date, list[Any]]) -> int:
    """Add a page of candles to those found; return how many days are new."""
    start = int(dt.datetime.combine(since, dt.time(), dt.UTC).timestamp() * 1000)
    before = len(found)
    for at, figures in _checked(venue, symbol, _asked(venue, symbol, "1d", start)):
        day, rest = divmod(at, _DAY_MS)
        if rest:
            moment = dt.datetime.fromtimestamp(at / 1000, dt.UTC)
            reason = f"{venue.title}'s day of {symbol} begins at {moment:%H:%M} UTC, and a day here at 00:00"
            raise MarketError(reason, remedy="choose another DESK_CCXT_VENUE")
        date = dt.date(1970, 1, 1) + dt.timedelta(days=day)
        if date in found and found[date] != figures and date < dt.datetime.now(dt.UTC).date():
            reason = f"{venue.title} gives two candles of {symbol} on {date}: {found[date]} and {figures}"
            raise MarketError(reason, remedy="try again; leave it out if it stays so")
        found[date] = figures
    return len(found) - before


def recent(venue: Venue, symbol: str, frame: str) -> list[list[float]]:
    """Return the newest candles of part of a day, in ascending order: one page."""
    rows = dict(_checked(venue, symbol, _asked(venue, symbol, frame, None)))
    if not rows:
        raise MarketError(f"{venue.title} has no candles of {symbol} of {frame}")
    return [[at, *rows[at]] for at in sorted(rows)]


def _asked(venue: Venue, symbol: str, frame: str, since: int | None) -> Iterable[Any]:
    rows = venue.ask("fetch_ohlcv", symbol.replace("-", "/"), frame, since, PAGE)
    if not isinstance(rows, list):
        raise VenueSilent(f"{venue.title}'s candles of {symbol} cannot be read", remedy="try again in a minute")
    return rows


def _checked(venue: Venue, symbol: str, rows: Iterable[Any]) -> Iterator[tuple[int, list[float]]]:
    for row in rows:
        try:
            at, *figures = row
            at, (opened, high, low, closed, volume) = int(at), [float(one) for one in figures]
        except (TypeError, ValueError):
            reason = f"a candle of {symbol} at {venue.title} has a figure that is none: {str(row)[:80]}"
            raise MarketUnavailable(reason, remedy="try again in a minute") from None
        figures = [opened, high, low, closed, volume]
        prices = figures[:4]
        if not all(map(math.isfinite, figures)) or min(prices) <= 0 or volume < 0:
            wrong = "a price or a volume that is none"
        elif low > min(opened, closed) or high < max(opened, closed):
            wrong = "a range that its own prices leave"
        else:
            yield at, figures
            continue
        day = dt.datetime.fromtimestamp(at / 1000, dt.UTC)
        reason = f"the candle of {symbol} of {day:%Y-%m-%d %H:%M} UTC at {venue.title} has {wrong}: {figures}"
        raise MarketError(reason, remedy="leave it out, or choose another DESK_CCXT_VENUE")
