"""The ledger of an account: cash and positions, their value, and the booking of fills."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from sqlalchemy import Row, bindparam, literal, or_
from sqlalchemy import select as sa_select
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from chordesk.models.errors import MarketError, OrderError
from chordesk.models.market import Quote, multiplier_of
from chordesk.models.orders import PAID_FOR, AccountView, BrokerFill, HeldPosition, Settlement
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, BookedSettlement, BooksMark, Fill, Position
from chordesk.tools.decimals import exact
from chordesk.tools.market.clock import day_of


class Quoter(Protocol):
    """Source of prices: a market, or quotes read beforehand."""

    def quote(self, symbol: str) -> Quote:
        """Return the last price known now; raises MarketError when there is none."""


def ensure_account(session: Session, name: str, cash: float) -> Account:
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


@dataclass(slots=True)
class Books:
    """cash, and by symbol the signed quantity and its average cost per share. rows: how many were booked one by one."""

    cash: Decimal
    held: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    rows: int = 0

    def book(self, row: Row[Any]) -> None:
        if row.kind is None:
            sign = 1 if row.side == "buy" else -1
            self.move(row.symbol, sign * exact(row.quantity), exact(row.price), exact(row.commission))
        else:
            self.settle(row.kind, row.symbol, exact(row.quantity), exact(row.price))
        self.rows += 1

    def move(self, symbol: str, signed: Decimal, price: Decimal, commission: Decimal = Decimal(0)) -> None:
        self.cash -= signed * price * exact(multiplier_of(symbol)) + commission
        before, average = self.held.get(symbol, (Decimal(0), Decimal(0)))
        after = before + signed
        if after:
            self.held[symbol] = (after, exact(average_cost(before, average, signed, price)))
        else:
            self.held.pop(symbol, None)

    def settle(self, kind: str, symbol: str, quantity: Decimal, price: Decimal) -> None:
        """Book a leg without an order. The cost of a split position stays as a whole."""
        if kind in PAID_FOR:
            self.cash += quantity * price
        elif kind != "split":
            self.move(symbol, quantity, price)
        else:  # of a name that was sold before the split was known the shares that it left come at no cost
            before, average = self.held.pop(symbol, (Decimal(0), Decimal(0)))
            if after := before + quantity:
                self.held[symbol] = (after, exact(float(average * before / after)))


def books_of(
    session: Session, account: str, opening_cash: float, at: dt.datetime | None = None, symbol: str | None = None
) -> Books:
    """Return opening cash with the account's fills and settlements booked, those up to a market time where it is named;
    `opening_cash` counts while the account has no row. They are booked from the newest mark on that holds none of a
    later market time. symbol: whose position is asked for; the rest is then that of the mark."""
    head, mark = session.get(Account, account), _mark(session, account, at)
    books = _marked(mark, exact(head.opening_cash if head else opening_cash))
    for row in _booked(session, account, mark, at, symbol):
        books.book(row)
    return books


ROWS_A_MARK = 500
_SETTLED = dt.timedelta(hours=1)  # real time after which no transaction is open that may book a row of then


def keep_marks(session: Session, account: str) -> None:
    """Mark the account's books after each so many rows since the last mark."""
    _account(session, account, lock=True)
    mark, before = _mark(session, account), utcnow() - _SETTLED
    books = _marked(mark, Decimal(0))
    market_at = mark.market_at if mark else None
    for row in _booked(session, account, mark):
        if row.created_at >= before:
            break
        books.book(row)
        market_at = max(row.at, market_at or row.at)
        if books.rows % ROWS_A_MARK == 0:
            held = {symbol: [str(quantity), str(cost)] for symbol, (quantity, cost) in books.held.items()}
            made = {"booked_at": row.created_at, "id": row.id, "moved": str(books.cash), "held": held}
            session.merge(BooksMark(account=account, market_at=market_at, **made))


def _mark(session: Session, account: str, at: dt.datetime | None = None) -> BooksMark | None:
    marks = select(BooksMark).where(col(BooksMark.account) == account)
    if at is not None:
        marks = marks.where(col(BooksMark.market_at) <= at)
    return session.exec(marks.order_by(col(BooksMark.booked_at).desc()).limit(1)).first()


def _marked(mark: BooksMark | None, opening_cash: Decimal) -> Books:
    if mark is None:
        return Books(opening_cash)
    held = {symbol: (Decimal(quantity), Decimal(cost)) for symbol, (quantity, cost) in mark.held.items()}
    return Books(opening_cash + Decimal(mark.moved), held)


def _booked(
    session: Session,
    account: str,
    mark: BooksMark | None,
    at: dt.datetime | None = None,
    symbol: str | None = None,
) -> list[Row[Any]]:
    """Return the fills and settlements after a mark in the order of their booking."""
    rows: list[Row[Any]] = []
    for table, moment, more in (
        (Fill, Fill.filled_at, (literal(None).label("kind"), col(Fill.side), col(Fill.commission))),
        (BookedSettlement, BookedSettlement.settled_at, (col(BookedSettlement.kind),)),
    ):
        columns = (table.created_at, table.id, table.symbol, table.quantity, table.price)
        found = sa_select(*map(col, columns), col(moment).label("at"), *more).where(col(table.account) == account)
        if mark is not None:
            later = or_(col(table.created_at) > mark.booked_at, col(table.id) > mark.id)
            found = found.where(col(table.created_at) >= mark.booked_at, later)
        if at is not None:
            found = found.where(col(moment) <= at)
        if symbol is not None:
            found = found.where(col(table.symbol) == symbol)
        rows += session.execute(found)
    return sorted(rows, key=lambda row: (row.created_at, row.id))


_POSITIONS = select(Position).where(col(Position.account) == bindparam("account")).order_by(Position.symbol)


def value(session: Session, market: Quoter, account: str, at: dt.datetime | None = None) -> AccountView:
    """Return cash, positions and equity: the one valuation, of every view, limit and report.

    A position counts at the last price that the market knew by its now; one without a price, or whose price is that of
    another contract, makes equity None.
    equity = cash + sum of quantity x price x multiplier. at: the market time, when the account may have moved since, as
    in a replay that was set back; by default the books as they stand. Raises OrderError when there is no such account.
    """
    head = _account(session, account)
    if at is None or not _moved_since(session, account, at):
        rows = session.exec(_POSITIONS, params={"account": account}).all()
        cash, held = head.cash, [(row.symbol, row.quantity, row.average_cost) for row in rows]
    else:
        books = books_of(session, account, head.opening_cash, at)
        cash = float(books.cash)
        held = [(symbol, float(quantity), float(cost)) for symbol, (quantity, cost) in sorted(books.held.items())]
    has_contracts = any(multiplier_of(symbol) != 1 for symbol, *_ in held)
    adjusted = adjusted_contracts(session, account) if has_contracts else {}
    positions = [_held(market, *one, adjusted.get(one[0])) for one in held]
    worth = [worth_of(one) for one in positions]
    known = [one for one in worth if one is not None]
    equity = float(sum(known, exact(cash))) if len(known) == len(worth) else None
    return AccountView(account=account, cash=cash, equity=equity, positions=positions)


def _after(table: Any, moment: Any) -> Any:
    own = col(table.account) == bindparam("account")
    return select(table.id).where(own, col(moment) > bindparam("at")).exists()


_MOVED = sa_select(or_(_after(Fill, Fill.filled_at), _after(BookedSettlement, BookedSettlement.settled_at)))


def _moved_since(session: Session, account: str, at: dt.datetime) -> bool:
    return session.scalar(_MOVED, {"account": account, "at": at}) is True


_FILLED = select(Fill.order_id, Fill.quantity).where(col(Fill.order_id).in_(bindparam("orders", expanding=True)))


def filled_quantities(session: Session, orders: Collection[str]) -> Mapping[str, Decimal]:
    found = dict.fromkeys(orders, Decimal(0))
    for order_id, quantity in session.exec(_FILLED, params={"orders": list(found)}).all() if found else ():
        found[order_id] += exact(quantity)
    return found


RENAMED = "renamed"  # in the id of a leg: NEW/day/renamed/OLD/symbol


def former_names(session: Session, account: str) -> dict[str, str]:
    """Return the new symbol of each that an account's books followed to another name."""
    of_names = (col(BookedSettlement.account) == account, col(BookedSettlement.kind) == "converted")
    rows = session.exec(select(BookedSettlement.id).where(*of_names, col(BookedSettlement.id).contains(f"/{RENAMED}/")))
    parts = (one.split("/") for one in rows)
    return {old: new for new, _, _, old, _ in parts}


def adjusted_contracts(session: Session, account: str) -> dict[str, dt.date]:
    """Return the contracts of an account that deliver other than 100 shares, with the day of the split since which."""
    mine = (col(BookedSettlement.account) == account, col(BookedSettlement.kind) == "adjusted")
    rows = session.exec(select(BookedSettlement).where(*mine).order_by(col(BookedSettlement.settled_at).desc()))
    return {row.symbol: day_of(row.settled_at, row.symbol) for row in rows}


def not_standard(symbol: str, day: dt.date) -> str:
    """Return why an adjusted contract has no price: what is quoted under its name delivers 100 shares."""
    return f"{symbol} delivers other than 100 shares since the split of {day}: it has no price, and ends at its expiry"


def _held(market: Quoter, symbol: str, quantity: float, cost: float, adjusted: dt.date | None) -> HeldPosition:
    held = HeldPosition(symbol=symbol, quantity=quantity, average_cost=cost)
    if adjusted is not None:
        return held.model_copy(update={"missing": not_standard(symbol, adjusted)})
    try:
        quote = market.quote(symbol)
    except MarketError as error:
        return held.model_copy(update={"missing": str(error)})
    return held.model_copy(update={"market_price": quote.price, "priced_at": quote.at, "source": quote.source})


def worth_of(held: HeldPosition) -> Decimal | None:
    if held.market_price is None:
        return None
    return exact(held.quantity) * exact(held.market_price) * exact(multiplier_of(held.symbol))


def apply_fill(session: Session, account: str, symbol: str, side: str, fill: BrokerFill) -> None:
    """Book one fill of a share or an OCC contract: cash by quantity x price x multiplier and commission, the position
    by its quantity. The average cost moves only when exposure grows, and leaves commission out; a position of zero
    shares goes. The caller's transaction must also hold what makes the fill unique."""
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


def book_settlement(session: Session, account: str, leg: Settlement) -> None:
    quantity, price = exact(leg.quantity), exact(leg.price)
    if leg.kind in PAID_FOR:
        head = _account(session, account, lock=True)
        head.cash = float(exact(head.cash) + quantity * price)
        session.add(head)
    elif leg.kind != "split":
        move(session, account, leg.symbol, quantity, price, leg.at)
    elif (row := session.get(Position, (account, leg.symbol), with_for_update=True)) is not None or quantity:
        row = row or Position(account=account, symbol=leg.symbol, quantity=0, average_cost=0, filled_at=leg.at)
        before = exact(row.quantity)
        if after := before + quantity:
            row.average_cost = float(exact(row.average_cost) * before / after)
            row.quantity = float(after)
            session.add(row)
        else:
            session.delete(row)  # `before` is not zero: the row is in the database
    session.flush()


def average_cost(before: Decimal, average: Decimal, signed: Decimal, price: Decimal) -> float:
    """Return the average cost per share of a position after a trade; the position must not be zero then. before: shares
    held; average: their cost per share; signed: shares traded, negative when sold; price: per share."""
    after = before + signed
    if before * signed >= 0:
        return float((before * average + signed * price) / after)
    return float(average if before * after > 0 else price)
