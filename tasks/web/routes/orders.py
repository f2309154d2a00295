"""Routes of orders and of requests that wait for a person."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from models.errors import NotWaiting, OrderError
from models.states import ApprovalState, OrderState
from tasks.approvals.approving import AnswerResult, WaitingOrder, WaitingRequest, answer, waiting
from tasks.views.order_view import find_order, list_orders, order_view
from tasks.views.run_view import find_run
from tasks.web.context import Context
from tasks.web.idempotency import WriteRoute, decided_once
from tasks.web.schemas import AnswerRequest, ApproveRequest, Id, IdFilter, Limit, OrderDetail, OrderRow
from tools.orders.audit.reading import check_logs, entries_of

router = APIRouter(route_class=WriteRoute)


@router.get("/orders", tags=["orders"])
def orders(
    context: Context, run: IdFilter = None, symbol: IdFilter = None, state: OrderState | None = None, limit: Limit = 20
) -> list[OrderRow]:
    """List orders, the newest first."""
    with context.store.read() as session:
        run_id = find_run(session, run).id if run else None
        rows = list_orders(session, run_id, symbol.upper() if symbol else None, state, limit)
        return [OrderRow(order=order, preview=preview) for order, preview in rows]


@router.get("/orders/{order_id}", tags=["orders"])
def order(context: Context, order_id: Id, log: bool = False) -> OrderDetail:
    """Show an order: size, checks, preview, approval, fills, and its lineage. log: add its lines in the audit log,
    which is read and checked as a whole."""
    with context.store.read() as session:
        found = order_view(session, find_order(session, order_id))
    if not log:
        return OrderDetail.model_validate(found)
    lines = entries_of(check_logs(context.store, context.settings), found["order"]["id"])
    return OrderDetail.model_validate({**found, "log": [dataclasses.asdict(line) for line in lines]})


@router.get("/approvals", tags=["approvals"])
def approvals(context: Context) -> list[Annotated[WaitingOrder | WaitingRequest, Field(discriminator="kind")]]:
    """List the orders and the models' requests that wait for a person; the oldest first of each."""
    with context.store.read() as session:
        return waiting(session)


@router.post("/approvals/{id_}", tags=["approvals"])
@decided_once
def decide(context: Context, id_: Id, asked: AnswerRequest) -> AnswerResult:
    """Approve or refuse an order as it was previewed, or a model's request. The id is the order's, its approval's or
    the request's."""
    by = f"{asked.by} via the API"
    answers = asked.answers if isinstance(asked, ApproveRequest) else None
    found = answer(
        context.store, context.settings, context.notifier.trade, id_,
        approve=asked.answer == "approve", by=by, why=asked.why, answers=answers,
    )  # fmt: skip
    if found.state is ApprovalState.EXPIRED and found.order is None:
        raise NotWaiting(found.too_late)
    if found.state is ApprovalState.EXPIRED:
        raise OrderError(found.too_late, remedy="decide on a new preview: `desk trade RUN` asks again")
    return found
