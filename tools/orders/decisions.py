"""A decision as the audit log has it: what was recommended, and why some of it becomes no order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col

from models.columns import utcnow
from models.order_tables import Order
from models.tables import Decision
from tools.orders.drafts import order_id


def take_up(session: Session, decision: Decision) -> bool:
    """Whether this is the first time that the decision is processed; true once, whoever else does it too."""
    taken = session.exec(
        update(Decision)
        .where(col(Decision.id) == decision.id, col(Decision.processed_at).is_(None))
        .values(processed_at=utcnow())
        .execution_options(synchronize_session=False)
    )
    return taken.rowcount == 1


def told(session: Session, decision: Decision) -> dict[str, Any]:
    """The facts of a decision whose orders are drafted: its actions as they were said, and each that goes no further
    with the reason."""
    suppressed = [
        {"ordinal": ordinal, "why": why}
        for ordinal, action in enumerate(decision.actions)
        if (why := _suppressed(session, decision, ordinal, action)) is not None
    ]
    return {
        "decision": decision.id,
        "run_id": decision.run_id,
        "account": decision.account,
        "by": decision.spoken_by,
        "why": decision.reasoning or None,
        "actions": decision.actions,
        "suppressed": suppressed,
    }


def _suppressed(session: Session, decision: Decision, ordinal: int, action: Any) -> str | None:
    """Why an action is no order, or one that was denied at once; None when it goes on."""
    order = session.get(Order, order_id(decision.id, ordinal))
    if order is not None:
        return f"{order.denial_code}: {order.denial_reason}" if order.denial_code else None
    said = action if isinstance(action, Mapping) else {}
    return f"{said.get('action')}: {said.get('reasoning') or 'no reason given'}"
