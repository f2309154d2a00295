"""Holdings of the account by the symbol that research is about: price and gain, or why they are not known."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import numpy as np
from sqlalchemy import bindparam, select
from sqlmodel import Session, col

from chordesk.models import features
from chordesk.models.errors import DeskError
from chordesk.models.exchanges import HOME, exchange_code
from chordesk.models.features import Feature
from chordesk.models.market import Listing, multiplier_of, root_of
from chordesk.models.orders import HeldPosition
from chordesk.models.plans import SizeBound
from chordesk.models.tables.orders import Position
from chordesk.models.thesis import Pooled
from chordesk.tools.decimals import exact
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.price_steps import market_terms
from chordesk.tools.market.prices import lapse, quote_of
from chordesk.tools.market.protocol import Floats
from chordesk.tools.market.universe import resolve_universe, same_company
from chordesk.tools.model_tools.company import LIKELY_RELATED, alike
from chordesk.tools.model_tools.company_data import reports
from chordesk.tools.model_tools.portfolio import store_of, valued
from chordesk.tools.orders.reservations import orders_of_day, reservations_on
from chordesk.tools.portfolio.size_bounds import Further, Standing, heat_book
from chordesk.tools.prices.price_panel import correlations, log_returns
from chordesk.tools.registry import Gaps, ToolContext
from chordesk.tools.risk.exposure import book_exposures, cover_of, free_cash, underlying_of

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
    listings = {symbol: listing_of(context, symbol) for symbol in sorted(held.union(wanted))}
    market, names = _market(context)
    return Standing(
        heat=book,
        limits=context.settings,
        free_cash=cash,
        exposures=exposures,
        sectors={symbol: one.sector for symbol, one in listings.items()},
        companies=companies_of(listings, book.returns),
        orders_left=context.settings.max_trades_per_day - today,
        market=market,
        market_names=names,
        reports=_next_reports(context, wanted),
        further=tuple(_further(context, wanted)),
        kinds={symbol: one.kind for symbol, one in listings.items()},
        lots=_lots(context, listings),
        currency=account.currency if account is not None else context.settings.currency,
    )


def _lots(context: ToolContext, listings: Mapping[str, Listing]) -> dict[str, Decimal]:
    abroad = {symbol: one for symbol, one in listings.items() if exchange_code(symbol) != HOME}
    return {symbol: market_terms(context.market, one).lot for symbol, one in abroad.items()}


def _further(context: ToolContext, symbols: Sequence[str]) -> Iterator[Further]:
    """Yield the bounds that features set. Of a feature that fails nothing can be said, so that it bounds all to 0."""
    for feature, functions in features.parts("bounds", kind=Callable):
        for function in functions:
            try:
                found = features.call(feature, function, context, symbols)
            except DeskError as error:
                found = partial(_none, feature, error)
            if found is not None:
                yield partial(_bounds_of, feature, found)


def _bounds_of(feature: Feature, bounds: Further, symbol: str, pooled: Pooled, now: Standing) -> Sequence[SizeBound]:
    try:
        return features.call(feature, lambda: [SizeBound.model_validate(one) for one in bounds(symbol, pooled, now)])
    except DeskError as error:
        return _none(feature, error)


def _none(feature: Feature, error: DeskError, *_: object) -> Sequence[SizeBound]:
    why = f"the bounds of the feature {feature.name} fail: {error.args[0]}"
    return [SizeBound(rule="bounds of a feature", most=0.0, why=why)]


def _next_reports(context: ToolContext, symbols: Sequence[str]) -> dict[str, dt.date]:
    found = {}
    for symbol in symbols:
        try:
            following, _ = reports(context, symbol)
        except DeskError:
            continue
        if following is not None:
            found[symbol] = following.date
    return found


def listing_of(context: ToolContext, symbol: str) -> Listing:
    try:
        return context.market.listing(symbol)
    except DeskError:
        return Listing(symbol=symbol)


def companies_of(listings: Mapping[str, Listing], returns: Mapping[str, Floats]) -> dict[str, str]:
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


NO_COST = "its cost is zero"


@dataclass(frozen=True, slots=True)
class Holding:
    """Symbol with all its positions: shares, and contracts on it."""

    symbol: str
    positions: tuple[str, ...]  # of the account
    price: float | None  # of the symbol's share, in account currency
    unrealized: float | None  # the gain of all its positions as a share of their cost
    missing: tuple[str, ...] = ()  # why price or unrealized is None, as "price: reason"


def holdings(context: ToolContext, only: str | None = None) -> list[Holding]:
    """Holdings by symbol, at prices of the market's latest session; with `only`, at most that one."""
    gaps = Gaps()
    account = valued(context, gaps, only)
    rows: defaultdict[str, list[HeldPosition]] = defaultdict(list)
    for row in account.positions if account is not None else ():
        rows[underlying_of(row.symbol)].append(row)
    # A price of an earlier session does not show a move since: it is not known.
    reasons = {row["symbol"]: row["reason"] for row in gaps.rows()}
    return [_holding(context, symbol, rows[symbol], reasons) for symbol in sorted(rows)]


ELSEWHERE = "unrealized: it is held at another broker, and never traded here"


def held_elsewhere(context: ToolContext, own: Collection[str]) -> list[Holding]:
    """Holdings that features know of beside the account's, by symbol."""
    named: set[str] = set()
    for feature, functions in features.parts("researched", kind=Callable):
        for function in functions:
            named.update(features.call(feature, function, context))
    return [holding_elsewhere(context, symbol) for symbol in sorted(named.difference(own))]


def holding_elsewhere(context: ToolContext, symbol: str) -> Holding:
    price, no_price = _price(context, symbol)
    return Holding(symbol, (), price, None, (*([f"price: {no_price}"] if no_price else ()), ELSEWHERE))


_HELD = select(col(Position.symbol)).where(col(Position.account) == bindparam("account"))


def holds(session: Session, account: str, symbol: str) -> bool:
    return symbol in map(underlying_of, session.connection().execute(_HELD, {"account": account}).scalars())


def free_shares(session: Session, account: str, symbol: str) -> float:
    held = _held_of(session, account, symbol)
    shares = max(held.get(symbol, exact(0)), exact(0))
    return float(shares - cover_of(held).shares)


def written_contracts(session: Session, account: str, symbol: str) -> float:
    held = _held_of(session, account, symbol)
    return float(sum(max(-quantity, exact(0)) for name, quantity in held.items() if name != underlying_of(name)))


def _held_of(session: Session, account: str, symbol: str) -> dict[str, Decimal]:
    """Return the quantities of a symbol's shares and of the contracts on it, by the name of what is held."""
    rows = session.scalars(select(Position).where(col(Position.account) == account)).all()
    return {row.symbol: exact(row.quantity) for row in rows if underlying_of(row.symbol) in (symbol, root_of(symbol))}


def _holding(context: ToolContext, symbol: str, held: Sequence[HeldPosition], reasons: Mapping[str, str]) -> Holding:
    prices = {row.symbol: None if row.symbol in reasons else row.market_price for row in held}
    price, no_price = (prices[symbol], reasons.get(symbol)) if symbol in prices else _price(context, symbol)
    unrealized, no_gain = _unrealized(held, prices, reasons)
    missing = tuple(f"{what}: {why}" for what, why in (("price", no_price), ("unrealized", no_gain)) if why is not None)
    return Holding(symbol, tuple(row.symbol for row in held), price, unrealized, missing)


def _price(context: ToolContext, symbol: str) -> tuple[float | None, str | None]:
    """Return the price of a symbol of which only contracts are held, or why it is not known."""
    try:
        found = quote_of(context.market, symbol)
        why = lapse(day_of(found.at, symbol), context.clock.session())
        return (found.price, None) if why is None else (None, why)
    except DeskError as error:
        return None, str(error)


def _unrealized(
    held: Sequence[HeldPosition], prices: Mapping[str, float | None], reasons: Mapping[str, str]
) -> tuple[float | None, str | None]:
    """Return the gain as a share of the cost, or why there is none."""
    gain = cost = 0.0
    for row in held:
        price = prices[row.symbol]
        if price is None:
            return None, f"{row.symbol} has no price: {reasons[row.symbol]}"
        units = row.quantity * multiplier_of(row.symbol)
        gain += units * (price - row.average_cost)
        cost += abs(units * row.average_cost)
    return (gain / cost, None) if cost else (None, NO_COST)
