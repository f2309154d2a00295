"""earnings_dates: when companies report next, and when they did."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

from pydantic import Field

from chordesk.models.company import EarningsDate
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import NEW_YORK, exchange_day
from chordesk.tools.market.protocol import EarningsSource, MarketData
from chordesk.tools.registry import Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload
from chordesk.tools.research.rows import absent, bounded, by_symbol, known, share, shown

WHAT = "earnings dates"
_MOST_ROWS = 200
# A report is out by then, New York time; one whose time is not known, at the end of its day.
_OUT_BY = {"beforeOpen": dt.time(9, 30), "duringSession": dt.time(16, 0)}
_END_OF_DAY = dt.time(23, 59)


class EarningsArguments(Arguments):
    symbols: Symbols
    limit: int = Field(4, ge=0, le=40, description="at most so many past reports a symbol, newest first")


def earnings_dates(context: ToolContext, arguments: EarningsArguments) -> dict[str, Any]:
    """Return each symbol's next report and its past ones; a date that is not known is in `missing`."""
    gaps, now = Gaps(), context.clock.now()
    most = share(arguments.limit, _MOST_ROWS, arguments.symbols) if arguments.limit else 0

    found = []
    for symbol, rows in by_symbol(context, arguments.symbols, WHAT, gaps, partial(_ask, context.market)):
        following, past = split(rows, now)
        if following is None:
            gaps.add("next earnings date", "not known", symbol)
        if not past and arguments.limit:
            gaps.add("past earnings dates", "not known", symbol)
        if following is None and not past:
            continue
        shown_past = bounded(past, most, "earnings dates", symbol, gaps) if arguments.limit else []
        found.append(
            {
                "symbol": symbol,
                "next": _next(following, exchange_day(now)) if following is not None else None,
                "past": [_past(row) for row in shown_past],
            }
        )
    return payload(context, gaps, available=bool(found), earnings=found)


def _ask(market: MarketData, symbol: str) -> list[EarningsDate]:
    if not isinstance(market, EarningsSource):
        raise absent(market, WHAT)
    return list(market.earnings(symbol))


def split(rows: list[EarningsDate], now: dt.datetime) -> tuple[EarningsDate | None, list[EarningsDate]]:
    """Return (the next report, the past ones newest first), of what was known by now, one row a date."""
    by_date = {row.date: row for row in sorted(known(rows, now), key=lambda row: row.known_at)}
    ordered = [by_date[day] for day in sorted(by_date)]
    ahead = [row for row in ordered if not is_out(row, now)]
    following = ahead[0].model_copy(update={"eps_actual": None}) if ahead else None
    return following, [row for row in reversed(ordered) if is_out(row, now)]


def is_out(row: EarningsDate, now: dt.datetime) -> bool:
    """Return whether the report is out: its window has ended, and the hour of its day by which it would be."""
    hour = _OUT_BY.get(row.timing or "", _END_OF_DAY)
    return now >= dt.datetime.combine(row.until or row.date, hour, NEW_YORK)


def _next(row: EarningsDate, today: dt.date) -> dict[str, Any]:
    return {**shown(row), "daysUntil": max((row.date - today).days, 0)}


def _past(row: EarningsDate) -> dict[str, Any]:
    """Return a past report with its surprise, (actual - estimate) / |estimate|."""
    estimate, actual = row.eps_estimate, row.eps_actual
    surprise = (actual - estimate) / abs(estimate) if actual is not None and estimate else None
    found = shown(row, "until", "confirmed")
    return found if surprise is None else {**found, "surprise": rounded(surprise)}


EARNINGS_DATES = ToolSpec(
    name="earnings_dates",
    description=(
        "The next earnings report of up to 150 symbols (date, daysUntil, timing beforeOpen or afterClose where known, "
        "`until` while the date is a window, confirmed false for an estimated date) and past ones with estimate, "
        "actual and surprise per share. A next date that is not known is in `missing`: it is not a sign of none."
    ),
    hint="next and past earnings dates, days until; `symbols`, and `limit` past reports.",
    arguments=EarningsArguments,
    function=earnings_dates,
)
