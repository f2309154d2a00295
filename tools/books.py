"""The books of an account: cash and what is held after its fills and settlements, in exact figures, and marks of them
from which they are booked on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Row, literal, or_
from sqlalchemy import select as sa_select
from sqlmodel import Session, col, select

from chordesk.models.errors import OrderError
from chordesk.models.market import multiplier_of
from chordesk.models.orders import PAID_FOR, BrokerFill, Settlement
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, BookedSettlement, BooksMark, Fill
from chordesk.tools.decimals import exact


class Rated(NamedTuple):
    """A currency that is not the account's, and what one unit of it is worth in the account's."""

    currency: str
    rate: Decimal


def rated_of(row: BrokerFill | Settlement | Fill | BookedSettlement | Row[Any], symbol: str) -> Rated | None:
    """Return the rate that a row is booked at, None where it is in the account's currency."""
    if row.currency is None:
        return None
    if row.rate is None:
        raise OrderError(f"{symbol} is paid in {row.currency}, and no rate of it is with its booking")
    return Rated(row.currency, exact(row.rate))


@dataclass(slots=True)
class Books:
    """cash, and by symbol the signed quantity and its average cost per share. bases: of symbols in another currency
    than the account's, that currency and the average cost in the account's. rows: how many were booked one by one."""

    cash: Decimal
    held: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    rows: int = 0
    bases: dict[str, Rated] = field(default_factory=dict)

    def book(self, row: Row[Any]) -> None:
        if row.kind is None:
            sign = 1 if row.side == "buy" else -1
            costs = exact(row.commission) + duties_sum(row.duties)
            self.move(row.symbol, sign * exact(row.quantity), exact(row.price), costs, rated_of(row, row.symbol))
        else:
            self.settle(row)
        self.rows += 1

    def move(
        self,
        symbol: str,
        signed: Decimal,
        price: Decimal,
        costs: Decimal = Decimal(0),
        rated: Rated | None = None,
    ) -> None:
        self.cash -= in_base(signed * price * exact(multiplier_of(symbol)), rated) + costs
        before, average = self.held.get(symbol, (Decimal(0), Decimal(0)))
        after = before + signed
        if not after:
            self.held.pop(symbol, None)
            self.bases.pop(symbol, None)
            return
        self.held[symbol] = (after, exact(average_cost(before, average, signed, price)))
        if rated is not None:
            base = self.bases[symbol].rate if symbol in self.bases else Decimal(0)
            cost = average_cost(before, base, signed, price * rated.rate)
            self.bases[symbol] = Rated(rated.currency, exact(cost))

    def settle(self, leg: Settlement | Row[Any]) -> None:
        """Book a leg without an order. The cost of a split position stays as a whole."""
        symbol, quantity, price, rated = leg.symbol, exact(leg.quantity), exact(leg.price), rated_of(leg, leg.symbol)
        if leg.kind in PAID_FOR:
            self.cash += in_base(quantity * price, rated)
        elif leg.kind != "split":
            self.move(symbol, quantity, price, rated=rated)
        else:  # of a name that was sold before the split was known the shares that it left come at no cost
            before, average = self.held.pop(symbol, (Decimal(0), Decimal(0)))
            base = self.bases.pop(symbol, Rated(rated.currency, Decimal(0)) if rated is not None else None)
            if after := before + quantity:
                self.held[symbol] = (after, exact(float(average * before / after)))
                if base is not None:
                    self.bases[symbol] = base._replace(rate=exact(float(base.rate * before / after)))


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
    session.get_one(Account, account, with_for_update=True)
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
            for symbol, base in books.bases.items():
                held[symbol] += [base.currency, str(base.rate)]
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
    held = {symbol: (Decimal(row[0]), Decimal(row[1])) for symbol, row in mark.held.items()}
    bases = {symbol: Rated(row[2], Decimal(row[3])) for symbol, row in mark.held.items() if len(row) > 2}
    return Books(opening_cash + Decimal(mark.moved), held, bases=bases)


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
        (Fill, Fill.filled_at, (literal(None).label("kind"), col(Fill.side), col(Fill.commission), col(Fill.duties))),
        (BookedSettlement, BookedSettlement.settled_at, (col(BookedSettlement.kind),)),
    ):
        columns = (table.created_at, table.id, table.symbol, table.quantity, table.price, table.currency, table.rate)
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


def duties_sum(duties: Iterable[Sequence[Any]] | None) -> Decimal:
    """Return what duties, (name, amount) each, come to."""
    return sum((exact(amount) for _, amount in duties or ()), Decimal(0))


def worth_of_fill(fill: Fill) -> Decimal:
    """Return what a fill moved in the account's currency, without its costs."""
    return in_base(
        exact(fill.quantity) * exact(fill.price) * exact(multiplier_of(fill.symbol)), rated_of(fill, fill.symbol)
    )


def costs_of(fill: Fill) -> Decimal:
    """Return commission and duties of a fill."""
    return exact(fill.commission) + duties_sum(fill.duties)


def in_base(amount: Decimal, rated: Rated | None) -> Decimal:
    return amount if rated is None else amount * rated.rate


def average_cost(before: Decimal, average: Decimal, signed: Decimal, price: Decimal) -> float:
    """Return the average cost per share of a position after a trade; the position must not be zero then. before: shares
    held; average: their cost per share; signed: shares traded, negative when sold; price: per share."""
    after = before + signed
    if before * signed >= 0:
        return float((before * average + signed * price) / after)
    return float(average if before * after > 0 else price)
