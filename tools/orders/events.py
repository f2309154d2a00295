"""What happens to orders, as events: each is written in the transaction that makes it happen."""

from __future__ import annotations

from sqlmodel import Session

from models import event_log
from models.events import DESK, EventType, event
from models.order_tables import Approval, Fill, Order
from models.states import ApprovalState, TradingState

_LONGEST = 500


def state(session: Session, order: Order, was: str | None) -> None:
    """An order was drafted (was: None) or has moved to the state that it shows."""
    why = order.denial_reason or order.message
    event_log.append(
        session,
        [
            event(
                EventType.ORDER_STATE,
                order.run_id,
                order=order.id,
                state=order.state,
                was=was,
                account=order.account,
                symbol=order.contract or order.symbol,
                action=order.action,
                side=order.side,
                quantity=order.quantity,
                code=order.denial_code,
                why=_short(why),
            )
        ],
    )


def fill(session: Session, order: Order, row: Fill) -> None:
    told = event(
        EventType.ORDER_FILL,
        order.run_id,
        order=order.id,
        fill=row.id,
        account=row.account,
        symbol=row.symbol,
        side=row.side,
        quantity=row.quantity,
        price=row.price,
    )
    event_log.append(session, [told])


def trading(session: Session, account: str, state: TradingState, why: str, by: str) -> None:
    """An account was halted, reduced or let go on."""
    told = event(EventType.ORDER_TRADING, DESK, account=account, state=state.value, why=_short(why), by=by)
    event_log.append(session, [told])


def asked(session: Session, order: Order, approval: Approval) -> None:
    told = event(
        EventType.APPROVAL_ASKED,
        order.run_id,
        approval_id=approval.id,
        kind="order",
        order=order.id,
        symbol=order.contract or order.symbol,
        notional=approval.notional,
        expires_at=approval.expires_at.isoformat(),
    )
    event_log.append(session, [told])


def answered(session: Session, order: Order, approval: Approval) -> None:
    """A person has said yes or no, or nobody has said anything in time."""
    expired = approval.state == ApprovalState.EXPIRED
    told = event(
        EventType.APPROVAL_EXPIRED if expired else EventType.APPROVAL_DECIDED,
        order.run_id,
        approval_id=approval.id,
        kind="order",
        order=order.id,
        decision=approval.state,
        by=approval.decided_by,
        why=_short(approval.why),
    )
    event_log.append(session, [told])


def _short(text: str | None) -> str | None:
    return text[:_LONGEST] if text is not None else None
