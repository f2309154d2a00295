"""Orders and models' requests that wait for a person, and the person's answer: for the commands and the service."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, Literal

from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.research import Frozen
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState
from chordesk.tasks.approvals import requests
from chordesk.tasks.approvals.requests import Answers
from chordesk.tools.orders.records import approvals


class WaitingOrder(Frozen):
    """An order that waits for a person, as it was previewed. notional in account currency."""

    kind: Literal["order"] = "order"
    approval: str
    order: str
    symbol: str
    contract: str | None
    legs: list[dict[str, Any]] | None
    action: str
    side: str | None
    quantity: float | None
    order_type: str | None
    limit_price: float | None
    stop_price: float | None
    trail_percent: float | None
    time_in_force: str
    account: str
    notional: float
    payload_hash: str
    asked_at: dt.datetime
    expires_at: dt.datetime


class WaitingRequest(Frozen):
    """A model's request to a person, in the middle of a turn that waits for the answer. detail: all of it, by kind;
    what: the same in one line. approval_id: the runtime's own id of it, if it has one."""

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


class AnswerResult(Frozen):
    """The result of an answer. order: null for a model's request. state: `expired` when it came too late.
    notified: the trade queue was, and submits an approved order now; else it does with its next check."""

    approval: str
    order: str | None = None
    state: ApprovalState
    by: str | None
    notified: bool = False

    @property
    def subject(self) -> str:
        return f"request {self.approval}" if self.order is None else f"order {self.order}"

    @property
    def too_late(self) -> str:
        """The message for an answer that came after its time."""
        if self.order is None:
            return f"{self.subject}: too late, its time or its turn is over; it was declined"
        return f"{self.subject}: too late, the question had expired and the order is denied"


def waiting(session: Session) -> list[WaitingOrder | WaitingRequest]:
    """Return orders first, then models' requests; the oldest first of each."""
    orders = [
        WaitingOrder.of(approval, order, approval=approval.id, order=order.id)
        for approval, order in approvals.pending(session)
    ]
    asked = requests.pending(session)
    return [*orders, *(WaitingRequest.of(row, approval=row.id, what=requests.what(row)) for row in asked)]


def answer(
    store: Store,
    settings: Settings,
    request_trade: Callable[[], bool],
    id_: str,
    *,
    approve: bool,
    by: str,
    why: str | None,
    answers: Answers | None = None,
) -> AnswerResult:
    """Record a person's answer, and have an approved order submitted. request_trade: asks the trade queue to process
    its orders now, and returns False when it could not be reached. answers: to a model's questions.

    Raises as `approvals.decide` does for an order, and as `requests.decide` for a model's request.
    """
    with store.session() as session:
        if _is_request(session, id_):
            row = requests.decide(session, id_, approve=approve, by=by, why=why, answers=answers)
            return AnswerResult(approval=row.id, state=ApprovalState(row.state), by=row.decided_by)
        if answers:
            approvals.find(session, id_)  # an unknown id is the first error to report
            raise UsageError("an order has no questions", remedy="approve or deny it without an answer")
        found = approvals.decide(session, settings, id_, approve, by, why)
        state = ApprovalState(found.state)
        answered = AnswerResult(approval=found.id, order=found.order_id, state=state, by=found.decided_by)
    if state is ApprovalState.APPROVED:
        return answered.model_copy(update={"notified": request_trade()})
    return answered


def _is_request(session: Session, id_: str) -> bool:
    """Return True for a model's request, False for an order or its approval. Raises UsageError if it may be either."""
    try:
        requests.find(session, id_)
    except NotFound:
        return False
    try:
        approvals.find(session, id_)
    except UsageError:
        return True
    raise UsageError(f"an order and a request begin with {id_!r}", remedy="give more of the id")
