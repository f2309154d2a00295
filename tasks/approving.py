"""What waits for a person, orders and models' requests alike, and the person's answer: for the commands and for the
service."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from sqlmodel import Session

from models.errors import NotFound, UsageError
from models.event_tables import RuntimeApproval
from models.order_tables import Approval, Order
from models.research import Frozen
from models.settings import Settings
from models.states import ApprovalState
from models.store import Store
from tasks import requests
from tasks.messenger import Messenger
from tasks.requests import Answers
from tools.orders import approvals


class Waiting(Frozen):
    """An order that waits for a person, as it was previewed. notional in account currency."""

    kind: Literal["order"] = "order"
    approval: str
    order: str
    symbol: str
    contract: str | None
    action: str
    side: str | None
    quantity: float | None
    order_type: str | None
    limit_price: float | None
    account: str
    notional: float
    payload_hash: str
    asked_at: dt.datetime
    expires_at: dt.datetime


class WaitingRequest(Frozen):
    """What a model asks a person for, in the middle of a turn that waits for the answer. detail: all of it, by kind;
    what: the same in one line. approval_id: the runtime's own name of it, if it has one."""

    kind: Literal["command", "file_change", "permissions", "user_input"]
    approval: str
    run_id: str
    role: str
    what: str
    detail: dict[str, Any]
    approval_id: str | None
    thread_id: str
    turn_id: str
    item_id: str | None
    asked_at: dt.datetime
    expires_at: dt.datetime


class Answered(Frozen):
    """What an answer came to. order: null for a model's request. state: `expired` when it was too late. told: the trade
    queue submits an approved order now; else it does when it next looks."""

    approval: str
    order: str | None = None
    state: ApprovalState
    by: str | None
    told: bool = False


def waiting(session: Session) -> list[Waiting | WaitingRequest]:
    """Orders first, then models' requests; the oldest first of each."""
    orders = [_waiting(approval, order) for approval, order in approvals.pending(session)]
    return [*orders, *(_request(row) for row in requests.pending(session))]


def answer(
    store: Store,
    settings: Settings,
    messenger: Messenger,
    id_: str,
    *,
    approve: bool,
    by: str,
    why: str | None,
    answers: Answers | None = None,
) -> Answered:
    """Writes a person's answer, and has an approved order submitted. answers: to a model's questions.

    Raises as `approvals.decide` does for an order, and as `requests.decide` for a model's request.
    """
    with store.session() as session:
        if _is_request(session, id_):
            row = requests.decide(session, id_, approve=approve, by=by, why=why, answers=answers)
            return Answered(approval=row.id, state=ApprovalState(row.state), by=row.decided_by)
        if answers:
            approvals.find(session, id_)  # what there is not asks nothing either, and that is the first thing to say
            raise UsageError("an order asks no questions", remedy="approve or deny it without an answer")
        found = approvals.decide(session, settings, id_, approve, by, why)
        state = ApprovalState(found.state)
        answered = Answered(approval=found.id, order=found.order_id, state=state, by=found.decided_by)
    if state is ApprovalState.APPROVED:
        return answered.model_copy(update={"told": messenger.trade()})
    return answered


def _is_request(session: Session, id_: str) -> bool:
    """Whether this is a model's request, and not an order's id or approval. Raises UsageError when it may be either."""
    try:
        requests.find(session, id_)
    except NotFound:
        return False
    try:
        approvals.find(session, id_)
    except UsageError:
        return True
    raise UsageError(f"an order and a request begin with {id_!r}", remedy="give more of the id")


def _request(row: RuntimeApproval) -> WaitingRequest:
    same = {name: value for name, value in row.model_dump().items() if name in WaitingRequest.model_fields}
    return WaitingRequest(approval=row.id, what=requests.what(row), **same)


def _waiting(approval: Approval, order: Order) -> Waiting:
    return Waiting(
        approval=approval.id,
        order=order.id,
        symbol=order.symbol,
        contract=order.contract,
        action=order.action,
        side=order.side,
        quantity=order.quantity,
        order_type=order.order_type,
        limit_price=order.limit_price,
        account=order.account,
        notional=approval.notional,
        payload_hash=approval.payload_hash,
        asked_at=approval.asked_at,
        expires_at=approval.expires_at,
    )
