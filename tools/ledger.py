"""The ledger of an account: cash and positions, their value, and the booking of fills."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, select

from chordesk.models.contracts import multiplier_of
from chordesk.models.errors import MarketError, OrderError
from chordesk.models.market import Quote
from chordesk.models.orders import AccountView, BrokerFill, HeldPosition
from chordesk.models.tables.orders import Account, Position
from chordesk.tools.decimals import exact


class Quoter(Protocol):
    """Source of prices: a market, or quotes read beforehand."""

    def quote(self, symbol: str) -> Quote:
        """Return the last price known now; raises MarketError when there is none."""


def ensure_account(session: Session, name: str, cash: float) -> Account:
    """Return the account's row, opened with `cash` when there is none yet."""
    account = session.get(Account, name)
    if account is not None:
        return account
    try:
        with session.begin_nested():
            account = Account(name=name, cash=cash, opening_cash=cash)
            session.add(account)
    except IntegrityError:  # another process opened it a moment ago
        account = None
    return account or _account(session, name)


def _account(session: Session, name: str, *, lock: bool = False) -> Account:
    account = session.get(Account, name, with_for_update=lock)
    if account is None:
        raise OrderError(f"there is no account {name!r}", remedy="ensure_account opens one")
    return account


def account_view(session: Session, market: Quoter, account: str) -> AccountView:
    """Return cash, positions and equity at the market's now; a position without a price makes equity None.

    equity = cash + sum of quantity x price x multiplier. Raises OrderError when there is no such account.
    """
    cash = _account(session, account).cash
    rows = session.exec(select(Position).where(Position.account == account).order_by(Position.symbol)).all()
    positions = [_held(row, market) for row in rows]
    return AccountView(account=account, cash=cash, equity=_equity(cash, positions), positions=positions)


def _equity(cash: float, positions: Sequence[HeldPosition]) -> float | None:
    equity = exact(cash)
    for held in positions:
        if held.market_price is None:
            return None
        equity += exact(held.quantity) * exact(held.market_price) * exact(multiplier_of(held.symbol))
    return float(equity)


def _held(row: Position, market: Quoter) -> HeldPosition:
    try:
        quote = market.quote(row.symbol)
    except MarketError:
        return HeldPosition(symbol=row.symbol, quantity=row.quantity, average_cost=row.average_cost)
    return HeldPosition(
        symbol=row.symbol,
        quantity=row.quantity,
        average_cost=row.average_cost,
        priced_at=quote.at,
        market_price=quote.price,
    )


def apply_fill(session: Session, account: str, symbol: str, side: str, fill: BrokerFill) -> None:
    """Book one fill of a share or an OCC contract: cash by quantity x price x multiplier and commission, the position
    by its quantity.

    The average cost moves only when exposure grows, and leaves commission out; a position of zero shares goes.
    The caller's transaction must also hold what makes the fill unique.
    """
    signed = exact(fill.quantity) * (1 if side == "buy" else -1)
    move(session, account, symbol, signed, exact(fill.price), fill.at, exact(fill.commission))


def move(
    session: Session,
    account: str,
    symbol: str,
    signed: Decimal,
    price: Decimal,
    at: dt.datetime,
    commission: Decimal = Decimal(0),
) -> None:
    """Change a position by a signed quantity at a price per share, which may be 0 when a contract just ends."""
    head = _account(session, account, lock=True)
    paid = signed * price * exact(multiplier_of(symbol))
    head.cash = float(exact(head.cash) - paid - commission)
    session.add(head)
    row = session.get(Position, (account, symbol), with_for_update=True)
    before = exact(row.quantity) if row else Decimal(0)
    after = before + signed
    if after == 0:
        if row is not None:
            session.delete(row)
    else:
        row = row or Position(account=account, symbol=symbol, quantity=0, average_cost=0, filled_at=at)
        row.average_cost = average_cost(before, exact(row.average_cost), signed, price)
        row.quantity = float(after)
        row.filled_at = at
        session.add(row)
    session.flush()


def average_cost(before: Decimal, average: Decimal, signed: Decimal, price: Decimal) -> float:
    """Return the average cost per share of a position after a trade; the position must not be zero then.

    before: shares held; average: their cost per share; signed: shares traded, negative when sold; price: per share.
    """
    after = before + signed
    if before * signed >= 0:
        return float((before * average + signed * price) / after)
    return float(average if before * after > 0 else price)
