"""Approvals: whether a person is asked, what the person said, and what becomes of a question nobody answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlmodel import Session, col, select

from models.columns import utcnow
from models.errors import NotFound, OrderError, UsageError
from models.order_tables import Approval, Order, Preview
from models.orders import DenialCode, Denied
from models.settings import Settings
from models.states import ApprovalState, OrderState
from tools.decimals import exact, money
from tools.orders import audit, events
from tools.orders.states import advance, deny_order, load_order

MANUAL, AUTO = "manual", "auto"
DESK = "desk"  # who closes a question that no person has answered


def needs_person(settings: Settings, real_money: bool, notional: float) -> bool:
    """Whether an order of this size waits for a person. `above:N` asks for more than N in account currency."""
    policy = settings.approval or (MANUAL if real_money else AUTO)
    if policy in (MANUAL, AUTO):
        return policy == MANUAL
    return exact(notional) > exact(float(policy.partition(":")[2]))


def ask(session: Session, settings: Settings, order: Order, preview: Preview) -> Approval:
    """Let a previewed order wait for a person, for as long as its preview is valid."""
    advance(session, order, OrderState.APPROVAL_PENDING)
    approval = Approval(
        order_id=order.id,
        payload_hash=preview.payload_hash,
        notional=preview.notional,
        state=ApprovalState.PENDING.value,
        expires_at=preview.created_at + dt.timedelta(minutes=settings.preview_minutes),
    )
    session.add(approval)
    session.flush()
    events.asked(session, order, approval)
    facts = {"payload_hash": approval.payload_hash, "notional": approval.notional}
    audit.record(
        session, settings, "approval_asked",
        order=order.id, approval=approval.id, expires_at=approval.expires_at.isoformat(), **facts,
    )  # fmt: skip
    return approval


def pending(session: Session) -> Sequence[tuple[Approval, Order]]:
    """What waits for a person, the oldest first."""
    return session.exec(
        select(Approval, Order)
        .join(Order, col(Order.id) == col(Approval.order_id))
        .where(
            col(Approval.state) == ApprovalState.PENDING.value, col(Order.state) == OrderState.APPROVAL_PENDING.value
        )
        .order_by(col(Approval.asked_at), col(Order.ordinal))
    ).all()


def find(session: Session, id_: str) -> Approval:
    """The approval of this id, or of this order's id; the beginning of either is enough. Raises UsageError,
    NotFound when there is none."""
    remedy = "`desk approvals` lists what waits"
    if not id_ or not id_.replace("-", "").isalnum():
        raise NotFound(f"{id_!r} is no approval's id", remedy=remedy)
    rows = session.exec(
        select(Approval).where(col(Approval.id).startswith(id_) | col(Approval.order_id).startswith(id_)).limit(2)
    ).all()
    if len(rows) == 1:
        return rows[0]
    if rows:
        raise UsageError(f"more than one approval begins with {id_!r}", remedy=remedy)
    raise NotFound(f"no approval begins with {id_!r}", remedy=remedy)


def decide(session: Session, settings: Settings, id_: str, approve: bool, by: str, why: str | None) -> Approval:
    """Write a person's answer. The state that comes back is `expired` when the answer was too late.

    Raises UsageError for an id that there is not, OrderError for an order that no longer waits or is no longer what
    was asked about.
    """
    found = find(session, id_)
    approval = session.get_one(Approval, found.id, with_for_update=True, populate_existing=True)
    order = load_order(session, approval.order_id)
    if approval.state != ApprovalState.PENDING or order.state != OrderState.APPROVAL_PENDING:
        why = f", {order.denial_code}: {order.denial_reason}" if order.denial_code else ""
        raise OrderError(
            f"order {order.id} waits for nobody: it is {order.state}{why}", remedy="`desk approvals` lists what waits"
        )
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).one()
    if preview.payload_hash != approval.payload_hash:
        raise OrderError(
            f"order {order.id} is not what was asked about", remedy="deny it with `desk deny` and decide anew"
        )
    if approval.expires_at <= utcnow():
        _expire(session, settings, approval, order)
    elif approve:
        advance(session, order, OrderState.APPROVED)
        _close(session, settings, approval, order, ApprovalState.APPROVED, by, why)
    else:
        reason = f"{by} said no" + (f": {why}" if why else "")
        refused = Denied(
            code=DenialCode.APPROVAL_DENIED, reason=reason, measured="denied", limit="approved by a person"
        )
        deny_order(session, order, refused)
        _close(session, settings, approval, order, ApprovalState.DENIED, by, why)
    return approval


def expire(session: Session, settings: Settings) -> list[str]:
    """Deny what nobody answered in time; the ids of the orders."""
    rows = session.exec(
        select(Approval, Order)
        .join(Order, col(Order.id) == col(Approval.order_id))
        .where(col(Approval.state) == ApprovalState.PENDING.value, col(Approval.expires_at) <= utcnow())
        .with_for_update()
        .execution_options(populate_existing=True)
    ).all()
    for approval, order in rows:
        _expire(session, settings, approval, order)
    return [order.id for _, order in rows]


def overtake(session: Session, account: str, denied: Denied) -> dict[str, str]:
    """Close every question on the account's orders, which the caller denies for another reason than an answer and puts
    on record; the approvals' ids by order.

    Called before the orders are locked: a person's answer takes the two rows in that order too.
    """
    rows = session.exec(
        select(Approval, Order)
        .join(Order, col(Order.id) == col(Approval.order_id))
        .where(col(Order.account) == account, col(Approval.state) == ApprovalState.PENDING.value)
        .with_for_update(of=Approval)
        .execution_options(populate_existing=True)
    ).all()
    for approval, order in rows:
        _decided(session, approval, order, ApprovalState.DENIED, DESK, f"{denied.code}: {denied.reason}")
    return {approval.order_id: approval.id for approval, _ in rows}


def approved(session: Session, order_id: str) -> Approval | None:
    """The person's yes to an order, if there is one."""
    row = session.exec(select(Approval).where(col(Approval.order_id) == order_id)).first()
    return row if row is not None and row.state == ApprovalState.APPROVED else None


def _expire(session: Session, settings: Settings, approval: Approval, order: Order) -> None:
    waited = approval.expires_at - approval.asked_at
    minutes = f"{waited / dt.timedelta(minutes=1):.1f} min"
    reason = f"nobody answered for an order of {money(approval.notional)} within {minutes}; decide anew"
    denied = Denied(
        code=DenialCode.APPROVAL_EXPIRED, reason=reason, measured="no answer", limit=f"an answer in {minutes}"
    )
    if order.state == OrderState.APPROVAL_PENDING:  # else a halt that did not see the question has denied it
        deny_order(session, order, denied)
    _close(session, settings, approval, order, ApprovalState.EXPIRED, None, None)


def _close(
    session: Session,
    settings: Settings,
    approval: Approval,
    order: Order,
    state: ApprovalState,
    by: str | None,
    why: str | None,
) -> None:
    _decided(session, approval, order, state, by, why)
    kind = "approval_expired" if state is ApprovalState.EXPIRED else "approval_decided"
    audit.record(session, settings, kind, order=approval.order_id, approval=approval.id, state=state, by=by, why=why)


def _decided(
    session: Session, approval: Approval, order: Order, state: ApprovalState, by: str | None, why: str | None
) -> None:
    approval.state, approval.decided_at, approval.decided_by, approval.why = state.value, utcnow(), by, why
    session.add(approval)
    session.flush()
    events.answered(session, order, approval)
