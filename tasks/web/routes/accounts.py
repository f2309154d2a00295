"""Routes of accounts, one at a time: state, positions, equity and ledger; and of the symbols in its runs."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from chordesk.models.answers import spelled
from chordesk.models.database.lookup import by_prefix
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.reading.accounts import (
    AccountDetail,
    AccountState,
    EquityCurve,
    LedgerRow,
    account_detail,
    equity_curve,
    find_account,
    held_symbols,
    ledger,
    list_accounts,
)
from chordesk.tasks.reading.symbol_history import (
    CandleChart,
    Indicator,
    SymbolDetail,
    SymbolRow,
    candles,
    list_symbols,
    listing_of,
    symbol_detail,
)
from chordesk.tasks.reading.track_record import TrackRecord, track_record
from chordesk.tasks.web.context import Context, ServiceContext
from chordesk.tasks.web.schemas import DayFilter, IdFilter, Limit, Offset, TextFilter, Ticker
from chordesk.tasks.web.security import JsonRoute
from chordesk.tools.charts.frames import Interval
from chordesk.tools.ledger import account_money
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.model_tools.charts import SESSIONS, picture_for_people
from chordesk.tools.orders.snapshots import take_snapshot
from chordesk.tools.registry import ToolContext

router = APIRouter(tags=["accounts"], route_class=JsonRoute)

Name = Annotated[str, Path(max_length=64, pattern=r"^[0-9A-Za-z_.-]+$", description="the account's name")]
Days = Annotated[int, Query(ge=1, le=5000, description="how many session days, the newest")]
Skip = Annotated[int, Query(ge=0, le=10_000, description="how many to skip first")]


@router.get("/accounts")
def accounts(context: Context) -> list[AccountState]:
    """List the accounts, this service's own first: cash, trading state, equity, agreement with the broker."""
    with context.store.read() as session:
        return list_accounts(session, context.settings)


@router.get("/accounts/{account}")
def account(context: Context, account: Name) -> AccountDetail:
    """Show an account: positions with their stops, exposure by sector, the last reconciliation.

    A backtest's is shown as of its last session, an account of another broker without prices.
    """
    with context.store.read() as session:
        name = find_account(session, context.settings, account)
        symbols, money = held_symbols(session, name), account_money(session, context.settings, name)
    market = _market_of(context, name)
    snapshot = take_snapshot(market, symbols, money) if market is not None else None
    with context.store.read() as session:
        return account_detail(session, context.settings, name, snapshot)


def _market_of(context: ServiceContext, name: str) -> MarketData | None:
    if is_backtest(name):
        return context.desk.backtest_market(name)
    return context.desk.account_market() if name == context.settings.account else None


@router.get("/accounts/{account}/record")
def record(context: Context, account: Name, against: IdFilter = None) -> TrackRecord:
    """Show an account's equity against its universe, months, trades, and what may be concluded.

    against: another account, such as that of another backtest: its equity and the difference on the days of both.
    """
    with context.store.read() as session:
        name = find_account(session, context.settings, account)
        other = find_account(session, context.settings, against) if against else None
    return track_record(context.store, context.desk.tool_context(), name, _market_of(context, name), other)


@router.get("/accounts/{account}/equity")
def equity(context: Context, account: Name, days: Days = 260) -> EquityCurve:
    """Show equity by session day, with change and drawdown.

    Money paid in or out counts as neither.
    """
    with context.store.read() as session:
        return equity_curve(session, find_account(session, context.settings, account), days)


@router.get("/accounts/{account}/ledger")
def movements(context: Context, account: Name, limit: Limit = 100, offset: Skip = 0) -> list[LedgerRow]:
    """List fills and option events, the newest first, with their effect on cash."""
    with context.store.read() as session:
        return ledger(session, find_account(session, context.settings, account), limit, offset)


symbols_router = APIRouter(tags=["symbols"], route_class=JsonRoute)

Sessions = Annotated[int, Query(ge=20, le=1000, description="sessions to look back; a week is 5 of them")]
ChartSessions = Annotated[int, Query(ge=20, le=504, description="sessions to look back; a week is 5 of them")]
Indicators = Annotated[list[Indicator], Query(alias="indicator", description="lines to show, with TA-Lib's periods")]
OfRun = Annotated[IdFilter, Query(description="as of this run: its market, day and account")]
OfDay = Annotated[DayFilter, Query(description="as of this session of the settings' market; a run has its own")]


@symbols_router.get("/symbols")
def symbols(context: Context, q: TextFilter = None, limit: Limit = 100, offset: Offset = 0) -> list[SymbolRow]:
    """List researched symbols, with their last verdict.

    The last researched come first. q: part of the symbol.
    """
    with context.store.read() as session:
        return list_symbols(session, context.settings.account, limit, offset, q)


@symbols_router.get("/symbols/{symbol}")
def symbol(context: Context, symbol: Ticker, run: OfRun = None, limit: Limit = 50) -> SymbolDetail:
    """Show a symbol across runs: hits, verdicts, reports, orders, fills, notes, memory, holdings.

    Without a run as of the account's market now. limit: of each list.
    """
    seen = _seen(context, run, None)
    listing = listing_of(seen, spelled(symbol))
    with context.store.read() as session:
        return symbol_detail(session, seen, listing, limit)


@symbols_router.get("/symbols/{symbol}/bars")
def bars(
    context: Context,
    symbol: Ticker,
    sessions: Sessions = 250,
    interval: Interval = "day",
    indicator: Indicators = [],  # noqa: B006
    run: OfRun = None,
    day: OfDay = None,
) -> CandleChart:
    """Show a symbol's bars with volume and indicators.

    Nothing is later than the market's now: of the run, of the day, or else of the account's market. Without bars,
    `missing` has the reason.
    """
    return candles(_seen(context, run, day), spelled(symbol), sessions, interval, indicator)


@symbols_router.get(
    "/symbols/{symbol}/picture",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}, "description": "The bytes of the picture."}},
)
def symbol_picture(
    context: Context,
    symbol: Ticker,
    sessions: ChartSessions = SESSIONS,
    interval: Interval = "day",
    run: OfRun = None,
    day: OfDay = None,
) -> Response:
    """Draw a symbol's chart with levels and trendlines as a PNG."""
    seen = _seen(context, run, day)
    return Response(picture_for_people(seen, spelled(symbol), sessions, interval), media_type="image/png")


def _seen(context: ServiceContext, run: str | None, day: dt.date | None) -> ToolContext:
    desk = context.desk
    if run is not None:
        with context.store.read() as session:
            return desk.tool_context(by_prefix(session, Run, run).id)
    market = _market_on(desk, day) if day is not None else desk.account_market()
    return replace(desk.tool_context(), market=market, clock=market.clock)


def _market_on(desk: Desk, day: dt.date) -> MarketData:
    try:
        return desk.market_for(day)
    except SettingError as error:
        raise UsageError(f"the market has no {day}: {error.args[0]}", remedy=error.remedy) from None
