"""The sessions of a market of past days that somebody chooses, such as those of a backtest."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from chordesk.models.errors import UsageError
from chordesk.tools.market.protocol import MarketData, RecordedSessions


def sessions_between(market: MarketData, first: dt.date, last: dt.date, every: int) -> list[dt.date]:
    """Return every so many-th session of the market's data from `first` to `last`, both included. Raises UsageError for
    a market of real time, days in the wrong order or outside the data, and a step below 1."""
    if market.clock.day is None or not isinstance(market, RecordedSessions):
        reason = f"the {market.name} market is in real time: it has no past day to stand on"
        raise UsageError(reason, remedy="start the desk with DESK_MARKET=replay, or DESK_MARKET=files and DESK_DATA")
    if every < 1:
        raise UsageError(f"--every {every} is no step", remedy="give 1 for each session, 5 for one a week")
    if first > last:
        raise UsageError(f"the first day {first} is after the last, {last}", remedy="give the earlier day first")
    known = market.recorded()
    for name, day in (("the first day", first), ("the last day", last)):
        if not known[0] <= day <= known[-1]:
            remedy = f"the data of the {market.name} market go from {known[0]} to {known[-1]}"
            raise UsageError(f"{name}, {day}, is outside the data", remedy=remedy)
    found = [day for day in known if first <= day <= last][::every]
    if not found:
        near = _near(known, first)
        raise UsageError(f"no session lies between {first} and {last}", remedy=f"the nearest of the data: {near}")
    return found


def later_session(market: MarketData, day: dt.date, count: int) -> dt.date:
    """Return the session so many after a session of the data, or the last one there is."""
    assert isinstance(market, RecordedSessions)
    known = list(market.recorded())
    return known[min(known.index(day) + count, len(known) - 1)]


def _near(known: Sequence[dt.date], day: dt.date) -> str:
    before = [one for one in known if one < day][-1:]
    after = [one for one in known if one > day][:1]
    return " and ".join(str(one) for one in (*before, *after))
