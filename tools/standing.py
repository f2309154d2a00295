"""What an account stands at before its trader's turn: holdings, open orders, limits, and what moves together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import numpy as np

from chordesk.models.errors import DeskError
from chordesk.models.market import Listing
from chordesk.tools.book import heat_book
from chordesk.tools.bounds import Standing
from chordesk.tools.decimals import exact
from chordesk.tools.market.protocol import Floats
from chordesk.tools.market.universe import resolve_universe, same_company
from chordesk.tools.model_tools.company import LIKELY_RELATED, alike
from chordesk.tools.model_tools.portfolio import store_of, valued
from chordesk.tools.orders.reservations import orders_of_day, reservations_on
from chordesk.tools.price_panel import correlations, log_returns
from chordesk.tools.registry import Gaps, ToolContext
from chordesk.tools.risk import free_cash, underlying_of
from chordesk.tools.risk.exposure import book_exposures

MARKET_NAMES = 100  # of the universe, whose mean return is the market's


def standing_of(context: ToolContext, symbols: Iterable[str]) -> Standing:
    """Return the standing of the context's account for positions in these symbols."""
    wanted = list(dict.fromkeys(symbols))
    book = heat_book(context, wanted)
    account = valued(context, Gaps())
    cash: Decimal | None = exact(context.settings.starting_cash)
    exposures: dict[str, Decimal] | None = {}
    held, today = set[str](), 0
    if account is not None:  # else it is opened with its first order
        with store_of(context).read() as session:
            reserved = reservations_on(session, account, context.settings)
            today = orders_of_day(session, account.account, context.clock.now())
        exposures = book_exposures(account.positions, reserved)
        free = free_cash(account)
        cash = None if free is None else free - sum((exact(one.cash) for one in reserved), Decimal(0))
        held = {underlying_of(one.symbol) for one in account.positions} | {one.symbol for one in reserved}
    listings = {symbol: _listing(context, symbol) for symbol in sorted(held.union(wanted))}
    market, names = _market(context)
    return Standing(
        heat=book,
        limits=context.settings,
        free_cash=cash,
        exposures=exposures,
        sectors={symbol: one.sector for symbol, one in listings.items()},
        companies=_companies(listings, book.returns),
        orders_left=context.settings.max_trades_per_day - today,
        market=market,
        market_names=names,
    )


def _listing(context: ToolContext, symbol: str) -> Listing:
    try:
        return context.market.listing(symbol)
    except DeskError:
        return Listing(symbol=symbol)


def _companies(listings: Mapping[str, Listing], returns: Mapping[str, Floats]) -> dict[str, str]:
    """Return by symbol the first listing of its company: by what the source says of both, else of symbols that are
    alike and move as one."""
    found: dict[str, str] = {}
    for symbol, own in listings.items():
        found[symbol] = next((key for key in found.values() if _is_same(listings[key], own, returns)), symbol)
    return found


def _is_same(one: Listing, other: Listing, returns: Mapping[str, Floats]) -> bool:
    if same_company(one, other):
        return True
    pair = (one.symbol, other.symbol)
    if not alike(*pair) or not all(symbol in returns for symbol in pair):
        return False
    return float(correlations(returns, pair, 0.0)[0, 1]) >= LIKELY_RELATED


def _market(context: ToolContext) -> tuple[Floats | None, int]:
    """Return the mean daily returns of the first names of the universe, and of how many."""
    try:
        names = resolve_universe(context.settings.universe, context.market)[:MARKET_NAMES]
        found = log_returns(context, names)
    except DeskError:
        return None, 0
    return (np.mean(list(found.values()), axis=0), len(found)) if found else (None, 0)
