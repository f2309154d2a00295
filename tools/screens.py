"""universe_list and sp500_movers: the desk's universe, and the largest moves of the session."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from models.errors import DeskError, MarketError
from models.market import Listing, Mover
from tools import figures
from tools.decimals import rounded
from tools.history import Budget, histories
from tools.market.protocol import Bars
from tools.market.universe import NAMED, resolve_universe
from tools.registry import Arguments, Gaps, ToolContext, ToolSpec, payload

_SESSIONS = 22


class UniverseArguments(Arguments):
    sector: str | None = Field(None, max_length=80, description="only this sector, as the listings name it")
    offset: int = Field(0, ge=0, description="leave out so many listings")
    limit: int = Field(150, ge=1, le=250, description="at most so many listings")


class MoversArguments(Arguments):
    direction: Literal["up", "down"] = Field(description="largest rises or largest falls")
    limit: int = Field(20, ge=1, le=100, description="at most so many")


def universe_list(context: ToolContext, arguments: UniverseArguments) -> dict[str, Any]:
    """Return the desk's universe by symbol, a page of it; `total` counts what the filter leaves."""
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
    rows = [listing.model_dump(exclude_none=True) for listing in page]
    return payload(context, gaps, available=bool(rows), total=len(listings), listings=rows)


def _members(context: ToolContext, gaps: Gaps) -> list[Listing]:
    """Return the settings' universe; a member that the source does not describe in time is a bare symbol."""
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
    """Return the largest close-to-close moves of the newest session, and of no older one."""
    gaps = Gaps()
    try:
        symbols = [listing.symbol for listing in context.market.universe("sp500")]
    except MarketError as error:
        gaps.add("movers", error)
        return payload(context, gaps, available=False, session=None, compared=0, movers=[])
    found = [bars for bars in histories(context, symbols, gaps, _SESSIONS) if len(bars.close) > 1]
    newest = max((bars.dates[-1] for bars in found), default=None)
    sign = 1 if arguments.direction == "up" else -1
    moved = (_mover(bars) for bars in found if bars.dates[-1] == newest)
    movers = sorted((row for row in moved if sign * row.change > 0), key=lambda row: (-sign * row.change, row.symbol))
    movers = movers[: arguments.limit]
    gaps.only({mover.symbol for mover in movers})
    if len(found) < len(symbols):
        gaps.add("bars", f"{len(symbols) - len(found)} of {len(symbols)} names have no current bars")
    rows = [mover.model_dump(mode="json", by_alias=True) for mover in movers]
    session = newest.isoformat() if newest else None
    return payload(context, gaps, available=bool(rows), session=session, compared=len(found), movers=rows)


def _mover(bars: Bars) -> Mover:
    return Mover(
        symbol=bars.symbol,
        close=round(float(bars.close[-1]), 4),
        change=round(float(bars.close[-1] / bars.close[-2] - 1), 4),
        gap=rounded(figures.gap(bars.open, bars.close)),
        volume_ratio=rounded(figures.volume_ratio(bars.volume), 2),
    )


UNIVERSE_LIST = ToolSpec(
    name="universe_list",
    description=(
        "The desk's universe: symbol, name, sector, industry. Pages of `limit` from `offset`; `total` tells how many."
    ),
    hint="the members of a universe with name, sector and industry.",
    arguments=UniverseArguments,
    function=universe_list,
    data=False,
)

SP500_MOVERS = ToolSpec(
    name="sp500_movers",
    description=(
        "The S&P names that rose or fell most in the newest session: close, change, gap (open to the previous close), "
        "volumeRatio (to the 20 sessions before). Fractions, 0.05 is 5%."
    ),
    hint='the day\'s largest moves; `direction` is "up" or "down", `limit` how many.',
    arguments=MoversArguments,
    function=sp500_movers,
)
