"""Frames: the bars of each symbol that a chart is made of, without a hole or a split among them."""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.prices import History, IntradayInterval, stamped
from chordesk.tools.market.protocol import Bars, Intraday, IntradaySource, MarketClock
from chordesk.tools.prices.daily_bars import (
    by_symbol,
    has_closes_alone,
    histories,
    last_move_like_a_split,
    note_holes,
    note_kept,
)
from chordesk.tools.registry import Gaps, ToolContext

Interval = Literal["day", "week", "hour", "15min"]
SESSIONS_A_WEEK = 5
# Sessions before those shown, in which recursive indicators (ATR, ADX) forget where they began.
_WARM_UP = 280


class Period(NamedTuple):
    """Time that one bar stands for. a_year: bars in a year; trend: bars that a trend is measured over."""

    noun: str
    a_year: int
    trend: int


PERIODS: dict[Interval, Period] = {
    "day": Period("sessions", 252, 63),
    "week": Period("weeks", 52, 26),
    "hour": Period("hours", 252 * 7, 63),
    "15min": Period("quarters of an hour", 252 * 26, 78),
}
# Of intraday bars: the most sessions of a chart, and those before them in which recursive indicators settle.
INTRADAY_SESSIONS: dict[IntradayInterval, int] = {"hour": 60, "15min": 20}
_INTRADAY_WARM_UP: dict[IntradayInterval, int] = {"hour": 40, "15min": 11}


@dataclass(frozen=True, slots=True)
class Frame:
    """The bars of one symbol's chart, all ending with the same bar."""

    symbol: str
    interval: Interval
    bars: Bars  # for figures; at most a tenth of their sessions has no bar, else none among them lacks one
    long: Bars  # with earlier bars, for indicators that look back further
    shown: Bars  # for drawing, not a number where the symbol has no bar
    wanted: int  # the requested number
    incomplete: bool  # the last bar goes on. Intraday bars are dated by their starts.

    @property
    def period(self) -> Period:
        return PERIODS[self.interval]

    @property
    def places(self) -> list[int]:
        """The place among the bars drawn of each of the bars for figures."""
        there: list[int] = np.flatnonzero(np.isfinite(self.shown.close)).tolist()
        return there[-len(self.bars.dates) :]

    @property
    def flags(self) -> dict[str, bool]:
        return {"weekIncomplete" if self.interval == "week" else "barIncomplete": True} if self.incomplete else {}


def frames(
    context: ToolContext,
    symbols: Sequence[str],
    gaps: Gaps,
    sessions: int,
    interval: Interval,
    *,
    closes_alone: bool = False,
) -> Iterator[Frame]:
    """Yield a frame over the last `sessions` sessions, or as many weeks as they make, of each symbol that has bars.
    What is missing, or left out because of a move that may be a split, is added to `gaps`. A market without intraday
    bars is one gap for all symbols. closes_alone: a symbol without open, high and low will do."""
    if interval == "hour" or interval == "15min":
        yield from _intraday(context, symbols, gaps, sessions, interval)
        return
    found = list(histories(context, symbols, gaps, sessions + _WARM_UP))
    if not closes_alone:
        found = [history for history in found if not has_closes_alone(history.bars)]
    (note_kept if interval == "day" else note_holes)(found, gaps, sessions)
    days = context.market.sessions(sessions + _WARM_UP)
    short = sum(len(history.bars.dates) < sessions for history in found)
    if short:
        gaps.add("history", f"{short} of {len(found)} symbols have fewer than {sessions} sessions of history")
    for history in found:
        frame = _frame(history, gaps, days, context.clock, sessions, interval)
        if frame is not None:
            yield frame


def _frame(
    history: History, gaps: Gaps, days: Sequence[dt.date], clock: MarketClock, sessions: int, interval: Interval
) -> Frame | None:
    found = [history.kept(sessions), history.kept(sessions + _WARM_UP), history.spread.last(sessions), history.run]
    if (since := _since(history.bars, gaps)) is not None:
        found = [bars.last(sum(day >= since for day in bars.dates)) for bars in found]
    bars, long, shown, run = found
    if interval == "day":
        longest = max(bars, long, key=lambda some: len(some.dates))
        return Frame(history.symbol, interval, bars, longest, shown, sessions, False)
    weeks, wanted = weekly(run, days), -(-sessions // SESSIONS_A_WEEK)
    if not weeks.dates:
        gaps.add("bars", "no whole week of bars", history.symbol)
        return None
    last = weeks.last(wanted)
    return Frame(history.symbol, interval, last, weeks, last, wanted, _goes_on(clock))


def _intraday(
    context: ToolContext, symbols: Sequence[str], gaps: Gaps, sessions: int, interval: IntradayInterval
) -> Iterator[Frame]:
    market, most = context.market, INTRADAY_SESSIONS[interval]
    if not isinstance(market, IntradaySource):
        gaps.add("bars", f"not available: intraday bars need a market that has them; the {market.name} market has none")
        return
    if sessions > most:
        gaps.add("sessions", f"{PERIODS[interval].noun} of the last {most} sessions at most, not of {sessions}")
    count = min(sessions, most)

    def ask(symbol: str) -> Intraday:
        return market.intraday(symbol, interval, count + _INTRADAY_WARM_UP[interval])

    for symbol, found in by_symbol(context, symbols, "bars", gaps, ask):
        yield _intraday_frame(symbol, found, gaps, count, interval)


def _intraday_frame(symbol: str, found: Intraday, gaps: Gaps, sessions: int, interval: IntradayInterval) -> Frame:
    noun = PERIODS[interval].noun
    days = list(dict.fromkeys(map(_day_of, found.spread.dates)))[-sessions:]
    wanted = sum(_day_of(start) >= days[0] for start in found.spread.dates)
    if len(days) < sessions:
        gaps.add("history", f"{noun} of {len(days)} sessions, not of {sessions}", symbol)
    if len(found.run.dates) < wanted:
        lost = wanted - sum(_day_of(start) >= days[0] for start in found.bars.dates)
        since = stamped(found.run.dates[0])
        gaps.add(noun, f"{lost} of the last {wanted} are missing; figures are of those from {since} on", symbol)
    run, spread = found.run, found.spread
    if (since_move := _since(run, gaps)) is not None:
        run, spread = (bars.last(sum(start >= since_move for start in bars.dates)) for bars in (run, spread))
    return Frame(symbol, interval, run.last(wanted), run, spread.last(wanted), wanted, found.unfinished)


def _day_of(start: dt.date) -> dt.date:
    return start.date() if isinstance(start, dt.datetime) else start


def _since(bars: Bars, gaps: Gaps) -> dt.date | None:
    """Return the day from which on prices compare, where they are not adjusted and moved as if by a split."""
    if bars.adjusted or (at := last_move_like_a_split(bars)) is None:
        return None
    count, first = len(bars.dates) - at, stamped(bars.dates[at])
    noun = "bars" if isinstance(bars.dates[at], dt.datetime) else "sessions"
    gaps.add("bars before that move", f"left out: only the {count} {noun} from {first} on compare", bars.symbol)
    return bars.dates[at]


def weekly(bars: Bars, days: Sequence[dt.date]) -> Bars:
    """Return the bars of calendar weeks, Monday to Sunday, each dated by its last session. days: sessions of the
    market, in ascending order. The first week is left out unless all of its sessions are among the bars: a part of a
    week is not a bar of it. The last one is as far as it has come."""
    weeks = np.array([day.toordinal() - 1 for day in bars.dates]) // 7
    first = np.flatnonzero(np.r_[True, weeks[1:] != weeks[:-1]])
    if _begins_within_a_week(bars.dates[0], days):
        first = first[1:]
    ends = np.r_[first[1:], len(weeks)] - 1
    if not len(first):
        return Bars(bars.symbol, [], bars.adjusted, *(np.empty(0) for _ in range(5)))
    dates = [bars.dates[end] for end in ends.tolist()]
    columns = (
        bars.open[first],
        np.maximum.reduceat(bars.high, first),
        np.minimum.reduceat(bars.low, first),
        bars.close[ends],
        np.add.reduceat(bars.volume, first),
    )
    return Bars(bars.symbol, dates, bars.adjusted, *columns)


def _begins_within_a_week(day: dt.date, days: Sequence[dt.date]) -> bool:
    """Return whether the market had a session of the same week before this day; also where that is not known."""
    before = bisect.bisect_left(days, day) - 1
    return before < 0 or _week(days[before]) == _week(day)


def _goes_on(clock: MarketClock) -> bool:
    """Return whether the exchange has another session in the week of the clock's last one."""
    sessions, last = exchange_hours(clock.exchange).sessions, clock.session()
    after = bisect.bisect_right(sessions, last)
    return after < len(sessions) and _week(sessions[after]) == _week(last)


def _week(day: dt.date) -> int:
    return (day.toordinal() - 1) // 7
