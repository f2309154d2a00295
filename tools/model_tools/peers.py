"""Medians of what the peers of a company are valued at: the other names of its industry, sector or universe."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any
from weakref import WeakKeyDictionary

from chordesk.models.errors import DeskError, MarketError
from chordesk.models.market import Listing
from chordesk.tools.market.clock import clock_day
from chordesk.tools.market.protocol import MarketData, RecordedSessions, StatementSource
from chordesk.tools.market.universe import NAMED, same_company
from chordesk.tools.model_tools.company_data import known
from chordesk.tools.model_tools.company_statements import ratios_now
from chordesk.tools.registry import ToolContext

LEAST_PEERS = 5  # names behind a median
_RATIOS = ("priceToEarnings", "priceToBook", "priceToSales")

# Ratios of a day on record by symbol: each company of a run asks for those of the same names.
_KEPT: WeakKeyDictionary[MarketData, dict[str, dict[str, float]]] = WeakKeyDictionary()


def peers_of(context: ToolContext, symbol: str) -> dict[str, Any]:
    """Return the median ratios of the other companies of the industry; where fewer than five of them have any, of the
    sector, else of all names.

    A ratio that fewer than five of them have is left out. A company without a profit has no price to earnings: that
    median is of the profitable ones. Raises MarketError where no group has five, or the time of the call does not
    suffice for all of them: a median of some would depend on the machine.
    """
    market = context.market
    if not isinstance(market, StatementSource) or not isinstance(market, RecordedSessions):
        raise MarketError(f"the {market.name} market has ratios of one company at a time")
    ends = time.monotonic() + context.settings.tool_seconds / 4
    own = market.listing(symbol)
    others = [one for one in market.universe(NAMED[0]) if one.symbol != symbol and not same_company(own, one)]
    for of, group in _groups(own, others):
        rows = [ratios for one in group if (ratios := _ratios_of(context, one.symbol, ends))]
        having = {name: [ratios[name] for ratios in rows if name in ratios] for name in _RATIOS}
        enough = {name: values for name, values in having.items() if len(values) >= LEAST_PEERS}
        if enough:
            least, most = (end(map(len, enough.values())) for end in (min, max))
            names = f"{least}" if least == most else f"{least} to {most}"
            return {
                "mediansOf": f"{names} others of {of}",
                **{name: round(median(values), 2) for name, values in enough.items()},
            }
    raise MarketError(f"fewer than {LEAST_PEERS} other names have a ratio")


def _groups(own: Listing, others: Sequence[Listing]) -> Iterable[tuple[str, Sequence[Listing]]]:
    if own.industry is not None:
        yield f"the industry {own.industry}", [one for one in others if one.industry == own.industry]
    if own.sector is not None:
        yield f"the sector {own.sector}", [one for one in others if one.sector == own.sector]
    yield "the whole universe", others


def _ratios_of(context: ToolContext, symbol: str, ends: float) -> dict[str, float]:
    """Return the ratios of a name, none for one without statements or a price of today."""
    kept = _KEPT.setdefault(context.market, {})
    if symbol not in kept:
        if time.monotonic() > ends:
            raise MarketError("the time of a call does not suffice for all of them")
        kept[symbol] = _made(context.market, symbol)
    return kept[symbol]


def _made(market: MarketData, symbol: str) -> dict[str, float]:
    assert isinstance(market, StatementSource), "only such a market is asked for peers"
    try:
        rows = known(market.statements(symbol), market.clock.now())
        return ratios_now(market, symbol, rows, clock_day(market.clock))
    except DeskError:
        return {}
