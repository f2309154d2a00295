"""universe_list and sp500_movers: the desk's universe, and the largest moves of the session."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, NotRequired
from weakref import WeakKeyDictionary

from pydantic import Field
from typing_extensions import TypedDict

from chordesk.models.errors import DeskError, MarketError
from chordesk.models.market import Listing, Mover
from chordesk.tools.decimals import rounded
from chordesk.tools.market.prices import History, lost_sessions
from chordesk.tools.market.protocol import MarketData, RecordedSessions
from chordesk.tools.market.universe import NAMED, compared_with, resolve_universe
from chordesk.tools.prices import price_figures
from chordesk.tools.prices.daily_bars import Budget, histories, note_lost
from chordesk.tools.registry import (
    MAX_SYMBOLS,
    Answer,
    Arguments,
    Gaps,
    Symbol,
    ToolContext,
    ToolSpec,
    Without,
    payload,
)

_SESSIONS = 22


class UniverseArguments(Arguments):
    sector: str | None = Field(None, max_length=80, description="only this sector, as the listings name it")
    offset: int = Field(0, ge=0, description="leave out so many listings")
    limit: int = Field(150, ge=1, le=250, description="at most so many listings")


class MoversArguments(Arguments):
    direction: Literal["up", "down"] = Field(description="largest rises or largest falls")
    limit: int = Field(20, ge=1, le=100, description="at most so many")
    symbols: list[Symbol] = Field([], max_length=MAX_SYMBOLS, description="also the own move of each of these names")


class UniverseAnswer(Answer):
    total: int
    listings: list[Listing]


class NotCompared(TypedDict):
    count: int
    symbols: list[str]


class MoversAnswer(Answer):
    session: dt.date | None
    previousSession: NotRequired[dt.date | None]
    compared: int
    notCompared: NotRequired[NotCompared]
    movers: list[Annotated[Mover, Without("changeSessions", changeSessions=int)]]
    asked: NotRequired[list[Annotated[Mover, Without("changeSessions", changeSessions=int)]]]


def universe_list(context: ToolContext, arguments: UniverseArguments) -> dict[str, Any]:
    gaps = Gaps()
    listings = _members(context, gaps)
    if arguments.sector is not None:
        wanted = arguments.sector.strip().lower()
        listings = [listing for listing in listings if (listing.sector or "").lower() == wanted]
    nameless = sum(listing.sector is None for listing in listings)
    if nameless:
        gaps.add("sector", f"the source names none for {nameless} of {len(listings)} listings")
    page = listings[arguments.offset : arguments.offset + arguments.limit]
    gaps.only({listing.symbol for listing in page})
    rows = [listing.model_dump(exclude_none=True, exclude={"aliases"}) for listing in page]
    return payload(context, gaps, available=bool(rows), total=len(listings), listings=rows)


def _members(context: ToolContext, gaps: Gaps) -> list[Listing]:
    wanted = context.settings.universe.strip().lower()
    if wanted in NAMED:
        return context.market.universe(wanted)
    budget = Budget(context)
    listings = []
    for symbol in resolve_universe(context.settings.universe, context.market):
        try:
            budget.spend()
            listings.append(context.market.listing(symbol))
        except DeskError as error:
            gaps.add("listing", error, symbol)
            listings.append(Listing(symbol=symbol))
    return listings


def sp500_movers(context: ToolContext, arguments: MoversArguments) -> dict[str, Any]:
    """Return the largest close-to-close moves of the market's latest session, and of no older one, of the market's list
    or, where it has none of the exchange, of the desk's universe. A name without a bar
    of it, or of any before, is not compared: `notCompared` counts and names those of the list, `missing` has the reason
    for each that was asked for."""
    gaps = Gaps()
    try:
        symbols = compared_with(context.market, context.settings.universe)
    except MarketError as error:
        gaps.add("movers", error)
        return payload(context, gaps, available=False, session=None, compared=0, movers=[])
    asked = dict.fromkeys(arguments.symbols)
    moves = _moves_of_universe(context, symbols, gaps)
    others = [symbol for symbol in asked if symbol not in set(symbols)]
    moves |= {move.symbol: move for move in _moves(context, others, gaps)}
    sign = 1 if arguments.direction == "up" else -1
    compared = [moves[symbol] for symbol in symbols if symbol in moves]
    movers = [row for row in compared if sign * row.change > 0]
    movers = sorted(movers, key=lambda row: (-sign * row.change, row.symbol))[: arguments.limit]
    gaps.only({*(mover.symbol for mover in movers), *asked})
    absent = [symbol for symbol in symbols if symbol not in moves]
    if absent:
        gaps.add("bars", f"{len(absent)} of {len(symbols)} names have no bar of the session, or none before it")
    note_lost(context, gaps, _SESSIONS)
    *before, session = map(str, context.market.sessions(2))
    return payload(
        context,
        gaps,
        available=bool(movers) or not asked.keys().isdisjoint(moves),
        session=session,
        previousSession=before[0] if before else None,
        compared=len(compared),
        notCompared={"count": len(absent), "symbols": absent[: arguments.limit]},
        movers=_rows(movers),
        asked=_rows(moves[symbol] for symbol in asked if symbol in moves),
    )


# The moves of a day on record, computed once for all turns that ask for them, and kept as long as the day's market.
_KEPT: WeakKeyDictionary[MarketData, tuple[dict[str, Mover], Gaps]] = WeakKeyDictionary()
_LOCK = threading.Lock()  # the turns of a screen ask at the same time


def _moves_of_universe(context: ToolContext, symbols: Sequence[str], gaps: Gaps) -> dict[str, Mover]:
    if not isinstance(context.market, RecordedSessions):
        return {move.symbol: move for move in _moves(context, symbols, gaps)}
    with _LOCK:
        kept = _KEPT.get(context.market)
        if kept is None:
            began, own = time.monotonic(), Gaps()
            kept = {move.symbol: move for move in _moves(context, symbols, own)}, own
            if (
                time.monotonic() - began < context.settings.tool_seconds / 2
            ):  # else some may be missing for lack of time
                _KEPT[context.market] = kept
    gaps.take(kept[1])
    return dict(kept[0])


def _moves(context: ToolContext, symbols: Sequence[str], gaps: Gaps) -> Iterator[Mover]:
    """Yield the move of each symbol that has a bar of the market's latest session, and one before."""
    lost = lost_sessions(context.market, _SESSIONS)
    for history in histories(context, symbols, gaps, _SESSIONS):
        if len(history.bars.close) > 1:
            yield _mover(history, lost)
        else:
            gaps.add("bars", f"no bar of any of the {_SESSIONS - 1} sessions before", history.symbol)


def _rows(movers: Iterable[Mover]) -> list[dict[str, Any]]:
    rows = [mover.model_dump(mode="json", by_alias=True) for mover in movers]
    return [{key: value for key, value in row.items() if (key, value) != ("changeSessions", 1)} for row in rows]


def _mover(history: History, lost: Sequence[dt.date]) -> Mover:
    close, spread, before = history.bars.close, history.spread, history.bars.dates[-2]
    month = history.window(21)
    span = sum(day > before for day in (*spread.dates, *lost))
    return Mover(
        symbol=history.symbol,
        close=round(float(close[-1]), 4),
        change=round(float(close[-1] / close[-2] - 1), 4),
        change_sessions=span,
        gap=rounded(price_figures.gap(spread.open, spread.close)) if span == 1 else None,
        volume_ratio=rounded(price_figures.volume_ratio(month.volume, len(month) - 1), 2) if month else None,
    )


UNIVERSE_LIST = ToolSpec(
    name="universe_list",
    description=(
        "The desk's universe: symbol, name, sector, industry. Pages of `limit` from `offset`; `total` is their number."
    ),
    arguments=UniverseArguments,
    function=universe_list,
    answer=UniverseAnswer,
    data=False,
)

SP500_MOVERS = ToolSpec(
    name="sp500_movers",
    description=(
        "The S&P names that rose or fell most in the newest session: close, change, gap (open to the previous close), "
        "volumeRatio (to the 20 sessions before); fractions. changeSessions: a change spans more than one session. "
        "`notCompared`: could not be looked at, the first `limit` of them; `asked`: the own move of each of `symbols`."
    ),
    arguments=MoversArguments,
    function=sp500_movers,
    answer=MoversAnswer,
)
