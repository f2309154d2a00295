"""Booking: a broker's answer on an order becomes its state, its fills, cash and positions, in one transaction."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.errors import OrderError
from chordesk.models.orders import BrokerAnswer, BrokerFill
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_FINAL, OrderState
from chordesk.models.tables.orders import Fill, Order
from chordesk.tools.decimals import exact, plain
from chordesk.tools.ledger import apply_fill
from chordesk.tools.orders.audit import log as audit
from chordesk.tools.orders.records import events
from chordesk.tools.orders.records.parts import whole_of
from chordesk.tools.orders.records.states import advance

# The part of the order that the fills of an answer may be.
_FILLS_OF = {
    OrderState.SUBMITTED: "none",
    OrderState.REJECTED: "none",
    OrderState.PARTIALLY_FILLED: "part",
    OrderState.CANCELLED: "none or part",
    OrderState.EXPIRED: "none or part",
    OrderState.FILLED: "all",
}


def book(session: Session, settings: Settings, order: Order, answer: BrokerAnswer) -> list[Fill]:
    """Book the fills that are not booked yet and move the order's state; return the new fills.

    An answer carries all fills of the order so far, so that the same answer twice changes nothing; an answer on a
    working order with fewer fills than are booked is outdated and ignored. Raises OrderError when the answer
    contradicts itself, or what is booked; then nothing is written.
    """
    to = OrderState(answer.status)
    reported = sum((exact(fill.quantity) for fill in answer.fills), Decimal(0))
    _require_consistent(order, to, reported)
    booked = session.exec(select(Fill).where(col(Fill.order_id) == order.id)).all()
    before = sum((exact(fill.quantity) for fill in booked), Decimal(0))
    if reported < before and to not in ORDER_FINAL:
        return []
    known = {fill.id for fill in booked}
    fresh = [row for row in _rows(order, answer.fills) if row.id not in known]
    if before + sum((exact(row.quantity) for row in fresh), Decimal(0)) != reported:
        raise _contradiction(order, f"fills {plain(reported)} that are not the {plain(before)} booked and new ones")
    _move(session, settings, order, to, answer)
    for row in fresh:
        session.add(row)
        events.fill(session, order, row)
        apply_fill(session, order.account, row.symbol, row.side, _fill(row))
        audit.record(session, settings, "fill", order=order.id, **_facts(row))
    session.flush()
    return fresh


def _require_consistent(order: Order, to: OrderState, reported: Decimal) -> None:
    whole = whole_of(order)
    amount = (
        "all" if reported == whole else "none" if reported == 0 else "part" if reported < whole else "more than all"
    )
    if amount not in _FILLS_OF[to].split(" or "):
        raise _contradiction(order, f"{to} and fills {plain(reported)} of {plain(whole)}")


def _contradiction(order: Order, what: str) -> OrderError:
    remedy = f"compare the broker's own record; the order stays {order.state}"
    return OrderError(f"the broker reports {what} on order {order.id}", remedy=remedy)


def _move(session: Session, settings: Settings, order: Order, to: OrderState, answer: BrokerAnswer) -> None:
    changes: dict[str, Any] = {
        "broker_order_id": answer.broker_order_id or order.broker_order_id,
        "message": answer.message or order.message,
    }
    if order.state != to:
        advance(session, order, to, **changes)
    elif all(getattr(order, name) == value for name, value in changes.items()):
        return
    else:
        for name, value in changes.items():
            setattr(order, name, value)
        session.add(order)
    audit.record(session, settings, "answer", order=order.id, state=to, **changes)


def _rows(order: Order, fills: list[BrokerFill]) -> list[Fill]:
    return [
        Fill(
            id=uuid.uuid5(uuid.UUID(order.id), f"fill/{fill.id if fill.id is not None else number}").hex,
            order_id=order.id,
            account=order.account,
            symbol=fill.symbol or order.contract or order.symbol,
            side=fill.side or order.side or "",
            quantity=fill.quantity,
            price=fill.price,
            commission=fill.commission,
            filled_at=fill.at,
        )
        for number, fill in enumerate(fills)
    ]


def _fill(row: Fill) -> BrokerFill:
    return BrokerFill(quantity=row.quantity, price=row.price, commission=row.commission, at=row.filled_at)


def _facts(row: Fill) -> dict[str, Any]:
    names = ("id", "symbol", "side", "quantity", "price", "commission")
    return {**{name: getattr(row, name) for name in names}, "filled_at": row.filled_at.isoformat()}
