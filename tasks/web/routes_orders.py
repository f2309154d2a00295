"""Orders, those that wait for a person, and the person's answer."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from models.errors import NotWaiting, OrderError
from models.states import ApprovalState, OrderState
from tasks.approving import Answered, Waiting, WaitingRequest, answer, waiting
from tasks.order_view import find_order, list_orders, order_view
from tasks.run_view import find_run
from tasks.web.schemas import AnswerRequest, ApproveRequest, Id, IdFilter, Limit, OrderDetail, OrderRow
from tasks.web.security import JsonRoute
from tasks.web.site import Here
from tools.orders.auditing import check_logs, entries_of

router = APIRouter(route_class=JsonRoute)


@router.get("/orders", tags=["orders"])
def orders(
    here: Here, run: IdFilter = None, symbol: IdFilter = None, state: OrderState | None = None, limit: Limit = 20
) -> list[OrderRow]:
    """Orders, the newest first."""
    with here.store.read() as session:
        run_id = find_run(session, run).id if run else None
        rows = list_orders(session, run_id, symbol.upper() if symbol else None, state, limit)
        return [OrderRow(order=order, preview=preview) for order, preview in rows]


@router.get("/orders/{order_id}", tags=["orders"])
def order(here: Here, order_id: Id, log: bool = False) -> OrderDetail:
    """An order as it stands: size, checks, preview, approval, fills, and what it rests on. log: its lines in the audit
    log too, which is read and checked as a whole for it."""
    with here.store.read() as session:
        found = order_view(session, find_order(session, order_id))
    if not log:
        return OrderDetail.model_validate(found)
    lines = entries_of(check_logs(here.store, here.settings), found["order"]["id"])
    return OrderDetail.model_validate({**found, "log": [dataclasses.asdict(line) for line in lines]})


@router.get("/approvals", tags=["approvals"])
def approvals(here: Here) -> list[Annotated[Waiting | WaitingRequest, Field(discriminator="kind")]]:
    """What waits for a person: orders, and what models ask for in the middle of a turn; the oldest first of each."""
    with here.store.read() as session:
        return waiting(session)


@router.post("/approvals/{id_}", tags=["approvals"])
def decide(here: Here, id_: Id, asked: AnswerRequest) -> Answered:
    """Let an order go to the broker as it was previewed, or refuse it; or a model's request. The id is the order's, its
    approval's or the request's."""
    by = f"{asked.by} via the API"
    answers = asked.answers if isinstance(asked, ApproveRequest) else None
    found = answer(
        here.store, here.settings, here.messenger, id_,
        approve=asked.answer == "approve", by=by, why=asked.why, answers=answers,
    )  # fmt: skip
    if found.state is ApprovalState.EXPIRED and found.order is None:
        raise NotWaiting(f"request {found.approval}: too late, its time or its turn is over; it was declined")
    if found.state is ApprovalState.EXPIRED:
        raise OrderError(
            f"order {found.order}: too late, the question had expired and the order is denied",
            remedy="decide on a new preview: `desk trade RUN` asks again",
        )
    return found
