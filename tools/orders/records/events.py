"""Events of orders and approvals, each written in the transaction that causes it."""

from __future__ import annotations

from typing import Any

from sqlmodel import Session

from chordesk.models.events import event_log
from chordesk.models.events.envelope import DESK, EventType, event
from chordesk.models.states import ApprovalState, TradingState
from chordesk.models.tables.orders import Approval, Fill, Order

_LONGEST = 500


def state(session: Session, order: Order, was: str | None) -> None:
    """Write that an order was drafted (was: None) or has moved to its present state."""
    moved = {"order": order.id, "state": order.state, "was": was, "account": order.account}
    traded = {"symbol": order.contract or order.symbol, "action": order.action, "side": order.side}
    denied = {"code": order.denial_code, "why": _short(order.denial_reason or order.message)}
    facts: dict[str, Any] = {**moved, **traded, "quantity": order.quantity, **denied}
    event_log.append(session, [event(EventType.ORDER_STATE, order.run_id, **facts)])


def fill(session: Session, order: Order, row: Fill) -> None:
    names = ("account", "symbol", "side", "quantity", "price")
    facts: dict[str, Any] = {"order": order.id, "fill": row.id, **{name: getattr(row, name) for name in names}}
    event_log.append(session, [event(EventType.ORDER_FILL, order.run_id, **facts)])


def trading_changed(session: Session, account: str, state: TradingState, why: str, by: str) -> None:
    """Write that an account was halted, set to reducing or resumed."""
    envelope = event(EventType.ORDER_TRADING, DESK, account=account, state=state.value, why=_short(why), by=by)
    event_log.append(session, [envelope])


def approval_asked(session: Session, order: Order, approval: Approval) -> None:
    asked = {"approval_id": approval.id, "kind": "order", "order": order.id, "symbol": order.contract or order.symbol}
    facts: dict[str, Any] = {**asked, "notional": approval.notional, "expires_at": approval.expires_at.isoformat()}
    event_log.append(session, [event(EventType.APPROVAL_ASKED, order.run_id, **facts)])


def approval_answered(session: Session, order: Order, approval: Approval) -> None:
    """Write that a person answered, or that the approval expired."""
    expired = approval.state == ApprovalState.EXPIRED
    kind = EventType.APPROVAL_EXPIRED if expired else EventType.APPROVAL_DECIDED
    asked = {"approval_id": approval.id, "kind": "order", "order": order.id, "decision": approval.state}
    facts: dict[str, Any] = {**asked, "by": approval.decided_by, "why": _short(approval.why)}
    event_log.append(session, [event(kind, order.run_id, **facts)])


def _short(text: str | None) -> str | None:
    return text[:_LONGEST] if text is not None else None
