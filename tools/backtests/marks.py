"""The account of a backtest at the close of a session: made anew from its fills, by market time.

A fill at the next open is booked with its decision, a session before its time; here it counts from its time on.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

from sqlmodel import Session, col, select

from chordesk.models.contracts import multiplier_of
from chordesk.models.errors import MarketError
from chordesk.models.tables.orders import Account, BookedSettlement, Fill
from chordesk.tools.brokers.paper_books import Books
from chordesk.tools.decimals import exact
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.quotes import quote_of


@dataclass(frozen=True, slots=True)
class AccountMark:
    """An account at a session's close, in account currency. equity: None while a position has no price. gross: value of
    all positions, long and short. traded: value of the fills since the mark before. stale: positions valued at a close
    of an earlier session; unpriced: those without a price."""

    cash: float
    equity: float | None
    gross: float
    traded: float
    stale: list[str]
    unpriced: list[str]


def mark_account(
    session: Session, market: MarketData, account: str, at: dt.datetime, since: dt.datetime | None
) -> AccountMark:
    """Return the account at a moment of market time, with the market's closes. since: the mark before, None at the
    first."""
    books, traded = _books(session, account, at, since)
    value, gross, stale, unpriced = Decimal(0), Decimal(0), list[str](), list[str]()
    for symbol, (held, _) in sorted(books.held.items()):
        found = _price(market, symbol)
        if found is None:
            unpriced.append(symbol)
            continue
        price, current = found
        worth = held * exact(price) * exact(multiplier_of(symbol))
        value, gross = value + worth, gross + abs(worth)
        stale += [] if current else [symbol]
    equity = None if unpriced else float(books.cash + value)
    return AccountMark(float(books.cash), equity, float(gross), float(traded), stale, unpriced)


def _books(session: Session, account: str, at: dt.datetime, since: dt.datetime | None) -> tuple[Books, Decimal]:
    """Return the books of what was traded or settled by `at`, and the value traded after `since`."""
    head = session.get_one(Account, account)
    fills = session.exec(select(Fill).where(Fill.account == account, col(Fill.filled_at) <= at)).all()
    ended = select(BookedSettlement).where(BookedSettlement.account == account, col(BookedSettlement.settled_at) <= at)
    books, traded = Books(exact(head.opening_cash)), Decimal(0)
    rows: list[Fill | BookedSettlement] = [*fills, *session.exec(ended).all()]
    for row in sorted(rows, key=lambda one: (_moment(one), one.created_at, one.id)):
        quantity, price = exact(row.quantity), exact(row.price)
        if isinstance(row, BookedSettlement):
            books.move(row.symbol, quantity, price)
            continue
        books.move(row.symbol, quantity if row.side == "buy" else -quantity, price, exact(row.commission))
        if since is None or row.filled_at > since:
            traded += quantity * price * exact(multiplier_of(row.symbol))
    return books, traded


def _moment(row: Fill | BookedSettlement) -> dt.datetime:
    return row.filled_at if isinstance(row, Fill) else row.settled_at


def _price(market: MarketData, symbol: str) -> tuple[float, bool] | None:
    """Return the price of a position and whether it is of the market's session; None without one."""
    try:
        quote = quote_of(market, symbol)
        # A share that did not trade is quoted at its last close before.
        return quote.price, exchange_day(quote.at) >= market.clock.session()
    except MarketError:
        pass
    try:
        return float(market.bars(symbol, 1).close[-1]), False
    except MarketError:
        return None
