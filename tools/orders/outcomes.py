"""What became of an order, for whoever asked for it."""

from __future__ import annotations

import uuid

from sqlmodel import Session, col, select

from models.order_tables import Fill, Order, Preview
from models.orders import BrokerFill, DenialCode, Denied, OrderOutcome
from models.states import OrderState

LIVE_OFF = "live trading off"
WAITS = "waits for approval: desk approvals"


def outcome(session: Session, order: Order, live: bool) -> OrderOutcome:
    """How far an order came, and what held it if it went no further."""
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    fills = session.exec(select(Fill).where(col(Fill.order_id) == order.id).order_by(col(Fill.filled_at))).all()
    return OrderOutcome(
        order_id=uuid.UUID(order.id),
        ordinal=order.ordinal,
        symbol=order.symbol,
        action=order.action,
        side=order.side,
        quantity=order.quantity,
        order_type=order.order_type,
        limit_price=order.limit_price,
        state=OrderState(order.state),
        denied=_denial(order),
        price=preview.price if preview else None,
        notional=preview.notional if preview else None,
        payload_hash=preview.payload_hash if preview else None,
        gate=_gate(order, live),
        message=order.message,
        fills=[BrokerFill(quantity=f.quantity, price=f.price, commission=f.commission, at=f.filled_at) for f in fills],
    )


def _gate(order: Order, live: bool) -> str | None:
    if order.state == OrderState.APPROVAL_PENDING:
        return WAITS
    return LIVE_OFF if order.state in (OrderState.PREVIEWED, OrderState.APPROVED) and not live else None


def _denial(order: Order) -> Denied | None:
    if order.denial_code is None:
        return None
    return Denied(
        code=DenialCode(order.denial_code),
        reason=order.denial_reason or "",
        measured=order.measured or "",
        limit=order.limit_text or "",
    )
