"""Intraday bars: the hours of a session by its exchange's clock, and what a market has of them."""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from chordesk.models.errors import MarketError
from chordesk.tools.market.bars import DailyBars
from chordesk.tools.market.clock import NEW_YORK, exchange_day, exchange_hours
from chordesk.tools.market.protocol import Floats, Intraday

IntradayInterval = Literal["hour", "15min"]
MINUTES: Mapping[IntradayInterval, int] = {"hour": 60, "15min": 15}
_SETTLING = dt.timedelta(minutes=30)  # a source may be late by so much with a session's first bar


def slots(until: dt.datetime, minutes: int, sessions: int) -> list[dt.datetime]:
    """Return the starts of the bars of the last so many regular sessions that have begun, up to a moment, in ascending
    order; the last bar of a session ends with it, however long it is."""
    hours, step = exchange_hours(), dt.timedelta(minutes=minutes)
    begun = bisect.bisect_left(hours.opens, until)
    found = []
    for opened, closed in zip(
        hours.opens[max(begun - sessions, 0) : begun], hours.closes[:begun][-sessions:], strict=True
    ):
        count = -(-int((min(closed, until) - opened).total_seconds()) // int(step.total_seconds()))
        found += [(opened + place * step).astimezone(NEW_YORK) for place in range(count)]
    return found


def end_of(start: dt.datetime, minutes: int) -> dt.datetime:
    """Return when a bar ends: after so many minutes, or with its session."""
    return min(start + dt.timedelta(minutes=minutes), exchange_hours().close_of(exchange_day(start)))


def intraday_of(
    symbol: str, rows: Mapping[str, Sequence[float]], starts: Sequence[dt.datetime], minutes: int, sessions: int,
    until: dt.datetime, goes_on: bool,
) -> Intraday:  # fmt: skip
    """Return what a source's rows are at the slots of the last so many sessions. A row that begins at no slot, such as
    one before the open, is left out.

    rows: open, high, low, close and volume, as long as `starts`; until: the moment up to which the source is known;
    goes_on: whether a bar that had not ended then is given. Raises MarketError when there is none of the last session.
    """
    wanted = [start for start in slots(until, minutes, sessions) if goes_on or end_of(start, minutes) <= until]
    places = {start: place for place, start in enumerate(starts)}
    held = [places.get(start) for start in wanted]
    known = [at for at, place in enumerate(held) if place is not None]
    if not known:
        raise MarketError(f"{symbol} has no intraday bars of the last {sessions} sessions")
    last = wanted[known[-1]]
    today = exchange_day(wanted[-1])
    if exchange_day(last) < today and until - exchange_hours().open_of(today) > _SETTLING:
        raise MarketError(f"{symbol} has no intraday bar of {today}; its last one begins at {last:%Y-%m-%d %H:%M}")
    line, held = wanted[known[0] : known[-1] + 1], held[known[0] : known[-1] + 1]

    def column(name: str) -> Floats:
        return np.array([rows[name][place] if place is not None else np.nan for place in held])

    spread = DailyBars(symbol, line, False, *map(column, ("open", "high", "low", "close", "volume")))
    inside = np.isfinite(spread.close)
    figures = (values[inside] for values in (spread.open, spread.high, spread.low, spread.close, spread.volume))
    bars = DailyBars(symbol, [start for start, has in zip(line, inside, strict=True) if has], False, *figures)
    holes = np.flatnonzero(~inside)
    run = bars.last(len(line) - int(holes[-1]) - 1) if len(holes) else bars
    return Intraday(bars, spread, run, end_of(last, minutes) > until)


def stamped(day: dt.date) -> str:
    """Return a bar's day, or the start of an intraday one with its zone, such as 2024-03-15T09:30-04:00."""
    return day.isoformat(timespec="minutes") if isinstance(day, dt.datetime) else day.isoformat()
