"""The outcome of an order, for callers and reports."""

from __future__ import annotations

import uuid

from sqlmodel import Session, col, select

from chordesk.models.orders import BrokerFill, DenialCode, Denied, OrderOutcome
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Fill, Order, Preview
from chordesk.models.trading.legs import legs_of
from chordesk.tools.orders.stops.terms import preview_text
from chordesk.tools.risk import deny

LIVE_OFF = "live trading off"
WAITS = "waits for approval: desk approvals"


def outcome(session: Session, order: Order, live: bool) -> OrderOutcome:
    """Return an order's state with its denial or gate, preview and fills."""
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    fills = session.exec(select(Fill).where(col(Fill.order_id) == order.id).order_by(col(Fill.filled_at))).all()
    names = ("ordinal", "symbol", "action", "side", "quantity", "order_type", "limit_price", "message")
    terms = ("stop_price", "trail_percent", "time_in_force")
    checked = {name: getattr(preview, name) for name in ("price", "notional", "payload_hash")} if preview else {}
    return OrderOutcome(
        **{name: getattr(order, name) for name in (*names, *terms)},
        **checked,
        legs=legs_of(order.legs),
        order_id=uuid.UUID(order.id),
        state=OrderState(order.state),
        protection=preview_text(preview.payload) if preview else None,
        denied=_denial(order),
        gate=_gate(order, live),
        fills=[BrokerFill(quantity=f.quantity, price=f.price, commission=f.commission, at=f.filled_at) for f in fills],
    )


def _gate(order: Order, live: bool) -> str | None:
    if order.state == OrderState.APPROVAL_PENDING:
        return WAITS
    return LIVE_OFF if order.state in (OrderState.PREVIEWED, OrderState.APPROVED) and not live else None


def _denial(order: Order) -> Denied | None:
    if order.denial_code is None:
        return None
    code = DenialCode(order.denial_code)
    return deny(code, order.denial_reason or "", order.measured or "", order.limit_text or "")
