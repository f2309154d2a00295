"""Routes of symbols: the list, one across all runs, and its bars."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query

from chordesk.models.errors import SettingError, UsageError
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.views.history.candles import CandleChart, Indicator, candles
from chordesk.tasks.views.history.symbol import SymbolDetail, SymbolRow, list_symbols, listing_of, symbol_detail
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.web.context import Context, ServiceContext
from chordesk.tasks.web.schemas import DayFilter, IdFilter, Limit, Offset, TextFilter, Ticker
from chordesk.tasks.web.security import JsonRoute
from chordesk.tools.charts.frames import Interval
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import ToolContext

router = APIRouter(tags=["symbols"], route_class=JsonRoute)

Sessions = Annotated[int, Query(ge=20, le=1000, description="sessions to look back; a week is 5 of them")]
Indicators = Annotated[list[Indicator], Query(alias="indicator", description="lines to show, with TA-Lib's periods")]
OfRun = Annotated[IdFilter, Query(description="as of this run: its market, day and account")]
OfDay = Annotated[DayFilter, Query(description="as of this session of the settings' market; a run has its own")]


@router.get("/symbols")
def symbols(context: Context, q: TextFilter = None, limit: Limit = 100, offset: Offset = 0) -> list[SymbolRow]:
    """List the symbols that the account's runs researched, with their last verdict, the last researched first. q: part
    of the symbol."""
    with context.store.read() as session:
        return list_symbols(session, context.settings.account, limit, offset, q)


@router.get("/symbols/{symbol}")
def symbol(context: Context, symbol: Ticker, run: OfRun = None, limit: Limit = 50) -> SymbolDetail:
    """Show a symbol across all runs of an account: hits, verdicts, reports, orders, fills, notes, the memory that a
    prompt gets, and what is held of it. Without a run as of the account's market now. limit: of each list."""
    seen = _seen(context, run, None)
    listing = listing_of(seen, symbol.upper())
    with context.store.read() as session:
        return symbol_detail(session, seen, listing, limit)


@router.get("/symbols/{symbol}/bars")
def bars(
    context: Context,
    symbol: Ticker,
    sessions: Sessions = 250,
    interval: Interval = "day",
    indicator: Indicators = [],  # noqa: B006
    run: OfRun = None,
    day: OfDay = None,
) -> CandleChart:
    """Show a symbol's bars with volume and indicators. Nothing is later than the market's now: of the run, of the day,
    or else of the account's market. Where there are none, `missing` has the reason."""
    return candles(_seen(context, run, day), symbol.upper(), sessions, interval, indicator)


def _seen(context: ServiceContext, run: str | None, day: dt.date | None) -> ToolContext:
    """Return what a view of a symbol is made from. Raises NotFound, UsageError for a day that the market lacks."""
    desk = context.desk
    if run is not None:
        with context.store.read() as session:
            return desk.tool_context(find_run(session, run).id)
    market = _market_on(desk, day) if day is not None else desk.account_market()
    return replace(desk.tool_context(), market=market, clock=market.clock)


def _market_on(desk: Desk, day: dt.date) -> MarketData:
    try:
        return desk.market_for(day)
    except SettingError as error:
        raise UsageError(f"the market has no {day}: {error.args[0]}", remedy=error.remedy) from None
