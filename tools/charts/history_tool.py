"""price_history_get: daily, weekly or intraday bars as columns and rows, for many symbols in one call."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from chordesk.models.errors import UsageError
from chordesk.tools.charts.frames import INTRADAY_SESSIONS, PERIODS, SESSIONS_A_WEEK, Interval
from chordesk.tools.charts.frames import frames as frames_of
from chordesk.tools.charts.study_tool import INTERVALS, distinct
from chordesk.tools.decimals import rounded
from chordesk.tools.market.intraday import stamped
from chordesk.tools.market.protocol import Bars
from chordesk.tools.registry import Arguments, Gaps, Symbol, ToolContext, ToolSpec, payload

# Rows of at most 70 bytes, and of 85 with a time of day: what fits in one answer.
MOST_SYMBOLS, MOST_ROWS, MOST_INTRADAY_ROWS = 20, 640, 520
COLUMNS = ["date", "open", "high", "low", "close", "volume"]


class HistoryArguments(Arguments):
    symbols: Annotated[
        list[Symbol],
        Field(min_length=1, max_length=MOST_SYMBOLS, description=f"1 to {MOST_SYMBOLS} tickers, all in one call"),
        AfterValidator(distinct),
    ]
    sessions: int = Field(30, ge=20, le=504, description="daily sessions to look back; a week is 5 of them")
    interval: Interval = Field("day", description=INTERVALS)


def price_history_get(context: ToolContext, arguments: HistoryArguments) -> dict[str, Any]:
    """Return the bars of each symbol, oldest first. Raises UsageError for more rows than an answer holds."""
    _require_room(arguments)
    gaps, rows = Gaps(), []
    for frame in frames_of(context, arguments.symbols, gaps, arguments.sessions, arguments.interval, closes_alone=True):
        bars = frame.shown
        row = {"symbol": frame.symbol, "adjusted": bars.adjusted, "rows": _rows(bars)}
        rows.append(row | frame.flags)
    return payload(context, gaps, available=bool(rows), interval=arguments.interval, columns=COLUMNS, histories=rows)


def _require_room(arguments: HistoryArguments) -> None:
    bars, symbols = _bars(arguments.sessions, arguments.interval), len(arguments.symbols)
    most = MOST_INTRADAY_ROWS if arguments.interval in INTRADAY_SESSIONS else MOST_ROWS
    if symbols * bars > most:
        noun = PERIODS[arguments.interval].noun
        raise UsageError(
            f"{symbols} symbols of {bars} {noun} are {symbols * bars} rows, more than {most}",
            remedy="ask for fewer symbols or sessions, or for weeks; chart_study_get has the figures of long periods",
        )


def _bars(sessions: int, interval: Interval) -> int:
    """Return the most bars of so many sessions."""
    if interval == "hour" or interval == "15min":
        return min(sessions, INTRADAY_SESSIONS[interval]) * PERIODS[interval].a_year // PERIODS["day"].a_year
    return -(-sessions // (SESSIONS_A_WEEK if interval == "week" else 1))


def _rows(bars: Bars) -> list[list[Any]]:
    """Return a row for each bar; a session without one has no row."""
    prices = (bars.open, bars.high, bars.low, bars.close)
    return [
        [stamped(day), *(rounded(float(column[at])) for column in prices), _shares(float(bars.volume[at]))]
        for at, day in enumerate(bars.dates)
        if bars.close[at] == bars.close[at]
    ]


def _shares(volume: float) -> int | None:
    return None if math.isnan(volume) else int(volume)


PRICE_HISTORY_GET = ToolSpec(
    name="price_history_get",
    description=(
        "Daily, weekly or intraday bars of up to 20 symbols, oldest first, as `columns` and `rows`: date (a week's "
        "last session, of whole weeks but the last; the start of an intraday bar, in regular hours), open, high, low, "
        "close, volume in shares. At most 640 rows an answer, 520 of intraday bars. A session without a bar has no row "
        "and is in `missing`; `adjusted`: prices were adjusted for splits and dividends."
    ),
    hint="daily, weekly or intraday bars; `symbols`, `sessions` and `interval`. Figures come from the chart study.",
    arguments=HistoryArguments,
    function=price_history_get,
)
