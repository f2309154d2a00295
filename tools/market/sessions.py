"""Sessions of a market, and names that lack the latest one: nothing older stands for it."""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chordesk.models.errors import DeskError, MarketError
from chordesk.tools.market.bars import STALE_DAYS, DailyBars
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import Bars, Floats, Incomplete, MarketData


@dataclass(frozen=True, slots=True)
class History:
    """A name's bars within a look-back that ends with the market's latest session.

    bars: those that the name has. spread: a row for each session from the first of them on, not a number where the name
    has no bar. run: the last bars, those without a missing session among them.
    """

    symbol: str
    bars: Bars
    spread: Bars
    run: Bars


def history_of(bars: Bars, sessions: Sequence[dt.date]) -> History:
    """Return bars as a history over these sessions of their market, in ascending order, which end with the bars'.

    A bar of a day that is no session of the market is left out.
    """
    inside = bars.last(len(bars.dates) - bisect.bisect_left(bars.dates, sessions[0]))
    count = len(inside.dates)
    if count <= len(sessions) and inside.dates[0] == sessions[-count]:
        return History(bars.symbol, inside, inside, inside)
    inside = _among(inside, frozenset(sessions))
    count = len(inside.dates)
    if inside.dates[0] == sessions[-count]:
        return History(bars.symbol, inside, inside, inside)
    run = next(back for back in range(count) if inside.dates[-1 - back] != sessions[-1 - back])
    return History(bars.symbol, inside, _spread(inside, sessions), inside.last(run))


def _among(bars: Bars, sessions: frozenset[dt.date]) -> Bars:
    kept = [place for place, day in enumerate(bars.dates) if day in sessions]
    figures = (values[kept] for values in (bars.open, bars.high, bars.low, bars.close, bars.volume))
    return DailyBars(bars.symbol, [bars.dates[place] for place in kept], bars.adjusted, *figures)


def _spread(bars: Bars, sessions: Sequence[dt.date]) -> Bars:
    days = sessions[bisect.bisect_left(sessions, bars.dates[0]) :]
    places = np.searchsorted([day.toordinal() for day in days], [day.toordinal() for day in bars.dates])

    def spread(values: Floats) -> Floats:
        wide = np.full(len(days), np.nan)
        wide[places] = values
        return wide

    figures = (bars.open, bars.high, bars.low, bars.close, bars.volume)
    return DailyBars(bars.symbol, days, bars.adjusted, *map(spread, figures))


def lapse(last: dt.date, latest: dt.date) -> str | None:
    """Return why a name whose newest bar is of `last` has no current price; None when it is of the latest session."""
    if last >= latest:
        return None
    if (latest - last).days > STALE_DAYS:
        return f"not traded since {last}"
    return f"no bar of {latest}, the market's latest session; the last is of {last}"


def no_current_price(market: MarketData, symbol: str) -> str | None:
    """Return why a symbol has no price of its market's latest session; None when it has one."""
    try:
        return lapse(market.bars(symbol, 1).dates[-1], market.clock.session())
    except DeskError as error:
        return str(error)


def lost_sessions(market: MarketData, sessions: int) -> Sequence[dt.date]:
    """Return days among the market's last so many sessions on which the exchange had one more, and this market no bar
    of any name."""
    return market.lost(sessions) if isinstance(market, Incomplete) else ()


def previous_session(market: MarketData) -> dt.date | None:
    """Return the market's last session before the exchange's today; None when it is not known."""
    today = exchange_day(market.clock.now())
    try:
        return next((day for day in reversed(market.sessions(2)) if day < today), None)
    except MarketError:
        return None
