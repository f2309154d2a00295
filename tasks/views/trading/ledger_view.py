"""The ledger of an account: fills and option events, the newest first."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.contracts import multiplier_of
from chordesk.models.tables.orders import BookedSettlement, Fill, Order
from chordesk.tools.decimals import exact


class LedgerRow(Frozen):
    """One movement. kind: a fill, or an option event's leg; quantity is signed; cash: what it added to the account's
    cash, negative when it was paid, commission included. at: market time. order and run_id: of a fill."""

    kind: Literal["fill", "assigned", "exercised", "expired", "delivered"]
    id: str
    at: dt.datetime
    symbol: str
    quantity: float
    price: float
    commission: float
    cash: float
    order: str | None
    run_id: str | None


def ledger(session: Session, account: str, limit: int, offset: int) -> list[LedgerRow]:
    """Return movements of an account by market time, the newest first."""
    most = offset + limit
    fills = session.exec(
        select(Fill, Order.run_id)
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(col(Fill.account) == account)
        .order_by(col(Fill.filled_at).desc(), col(Fill.id).desc())
        .limit(most)
    ).all()
    events = session.exec(
        select(BookedSettlement)
        .where(col(BookedSettlement.account) == account)
        .order_by(col(BookedSettlement.settled_at).desc(), col(BookedSettlement.id).desc())
        .limit(most)
    ).all()
    rows = [*(_filled(fill, run_id) for fill, run_id in fills), *(_settled(row) for row in events)]
    return sorted(rows, key=lambda row: (row.at, row.id), reverse=True)[offset:most]


def _filled(fill: Fill, run_id: str) -> LedgerRow:
    signed = fill.quantity if fill.side == "buy" else -fill.quantity
    return LedgerRow.of(
        fill, kind="fill", at=fill.filled_at, quantity=signed, order=fill.order_id, run_id=run_id,
        cash=_cash(fill.symbol, signed, fill.price, fill.commission),
    )  # fmt: skip


def _settled(row: BookedSettlement) -> LedgerRow:
    return LedgerRow.of(
        row, at=row.settled_at, commission=0.0, cash=_cash(row.symbol, row.quantity, row.price, 0.0), order=None,
        run_id=None,
    )  # fmt: skip


def _cash(symbol: str, signed: float, price: float, commission: float) -> float:
    return float(-exact(signed) * exact(price) * exact(multiplier_of(symbol)) - exact(commission))
