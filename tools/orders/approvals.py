"""Approvals: the policy, a person's answer, and expiry without one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlmodel import Session, col, select

from chordesk.models.database.lookup import ACTS, by_prefix
from chordesk.models.errors import OrderError
from chordesk.models.orders import DenialCode, Denied
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState, OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order, Preview
from chordesk.models.text import utc_seconds
from chordesk.tools.decimals import exact, money
from chordesk.tools.ledger import account_money
from chordesk.tools.orders import audit, booking
from chordesk.tools.orders.booking import advance, deny_order, load_order
from chordesk.tools.risk.codes import deny

MANUAL, AUTO = "manual", "auto"
CLOCKS_DIFFER = dt.timedelta(minutes=1)  # of two machines of a desk
DESK = "desk"  # author of approvals that close without a person


def needs_person(settings: Settings, real_money: bool, notional: float) -> bool:
    """`above:N` requires a person for more than N in account currency."""
    policy = settings.approval or (MANUAL if real_money else AUTO)
    if policy in (MANUAL, AUTO):
        return policy == MANUAL
    return exact(notional) > exact(float(policy.partition(":")[2]))


def request_approval(
    session: Session, settings: Settings, order: Order, preview: Preview, because: str | None = None
) -> Approval:
    """The order waits as long as its preview is valid. because: what the policy alone does not say."""
    message = "; ".join(filter(None, (order.message, because and f"waits for a person: {because}"))) or None
    advance(session, order, OrderState.APPROVAL_PENDING, message=message)
    approval = Approval(
        order_id=order.id,
        payload_hash=preview.payload_hash,
        notional=preview.notional,
        state=ApprovalState.PENDING.value,
        expires_at=preview.created_at + dt.timedelta(minutes=settings.preview_minutes),
    )
    session.add(approval)
    session.flush()
    booking.approval_asked(session, order, approval)
    facts: dict[str, object] = {"payload_hash": approval.payload_hash, "notional": approval.notional}
    facts |= {"because": because} if because else {}
    facts |= {"order": order.id, "approval": approval.id, "expires_at": approval.expires_at.isoformat()}
    audit.record(session, settings, "approval_asked", **facts)
    return approval


def pending(session: Session) -> Sequence[tuple[Approval, Order]]:
    """Return approvals that wait for a person, with their orders, the oldest first."""
    return session.exec(
        select(Approval, Order)
        .join(Order, col(Order.id) == col(Approval.order_id))
        .where(
            col(Approval.state) == ApprovalState.PENDING.value, col(Order.state) == OrderState.APPROVAL_PENDING.value
        )
        .order_by(col(Approval.asked_at), col(Order.ordinal))
    ).all()


def decide(
    session: Session, settings: Settings, id_: str, approve: bool, by: str, why: str | None, expect: str | None = None
) -> Approval:
    """Write a person's answer and return the approval; its state is `expired` when the answer was too late. expect:
    the hash of the preview that the person saw, None where none was shown. Raises NotFound or UsageError for the id,
    OrderError for an order that no longer waits, whose preview has changed, or is not the one that was shown."""
    found = by_prefix(session, Approval, id_, Approval.order_id, least=ACTS)
    approval = session.get_one(Approval, found.id, with_for_update=True, populate_existing=True)
    order = load_order(session, approval.order_id)
    if approval.state != ApprovalState.PENDING or order.state != OrderState.APPROVAL_PENDING:
        why = f", {order.denial_code}: {order.denial_reason}" if order.denial_code else ""
        raise OrderError(
            f"order {order.id} waits for no person: it is {order.state}{why}",
            remedy="`desk approvals` lists what waits",
        )
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).one()
    if expect is not None:
        from chordesk.tools.orders.shown_previews import require_shown  # few processes ever answer

        require_shown(session, settings, order, preview, expect)
    if preview.payload_hash != approval.payload_hash:
        raise OrderError(
            f"order {order.id} has changed since approval was requested",
            remedy="deny it with `desk deny` and decide anew",
        )
    require_clock(approval.asked_at)
    if approval.expires_at <= utcnow():
        _expire(session, settings, approval, order)
    elif approve:
        advance(session, order, OrderState.APPROVED)
        _close(session, settings, approval, order, ApprovalState.APPROVED, by, why)
    else:
        reason = f"{by} denied it" + (f": {why}" if why else "")
        deny_order(session, order, deny(DenialCode.APPROVAL_DENIED, reason, "denied", "approved by a person"))
        _close(session, settings, approval, order, ApprovalState.DENIED, by, why)
    return approval


def require_clock(asked_at: dt.datetime) -> None:
    """Raise OrderError where a question is of the future: by a clock that is behind, an answer is never too late."""
    if asked_at > (now := utcnow()) + CLOCKS_DIFFER:
        raise OrderError(
            f"the question was asked at {utc_seconds(asked_at)}, and this machine's clock shows {utc_seconds(now)}",
            remedy="set the clock of this machine right, then answer again",
        )


def expire(session: Session, settings: Settings) -> list[str]:
    """Deny orders whose approval expired without an answer; return their ids."""
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


def close_pending(session: Session, account: str, denied: Denied) -> dict[str, str]:
    """Close every pending approval on the account's orders, which the caller denies for another reason and records;
    return the approvals' ids by order. Called before the orders are locked: a person's answer locks the two rows in
    that order too."""
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
    row = session.exec(select(Approval).where(col(Approval.order_id) == order_id)).first()
    return row if row is not None and row.state == ApprovalState.APPROVED else None


def _expire(session: Session, settings: Settings, approval: Approval, order: Order) -> None:
    waited = approval.expires_at - approval.asked_at
    minutes = f"{waited / dt.timedelta(minutes=1):.1f} min"
    amount = money(approval.notional, account_money(session, settings, order.account).base)
    reason = f"no person answered for an order of {amount} within {minutes}; decide anew"
    denied = deny(DenialCode.APPROVAL_EXPIRED, reason, "no answer", f"an answer in {minutes}")
    if order.state == OrderState.APPROVAL_PENDING:  # else a halt that did not see the approval has denied it
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
    booking.approval_answered(session, order, approval)
