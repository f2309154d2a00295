"""Routes of orders and of requests that wait for a person."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from chordesk.models.errors import NotWaiting, OrderError
from chordesk.models.states import ApprovalState, OrderState
from chordesk.tasks.approvals import AnswerResult, WaitingOrder, WaitingRequest, answer, waiting
from chordesk.tasks.views.order_view import find_order, list_orders, order_view
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.views.trading.audit_view import AuditState, audit_state
from chordesk.tasks.views.trading.limits_view import LimitsView, limits_view
from chordesk.tasks.views.trading.order_checks import WAITS, OrderChecks, order_checks
from chordesk.tasks.views.trading.order_graph import OrderGraph, order_graph
from chordesk.tasks.web.context import Context, ServiceContext
from chordesk.tasks.web.idempotency import WriteRoute, decided_once
from chordesk.tasks.web.schemas import (
    AnswerRequest,
    ApproveRequest,
    DayFilter,
    Id,
    IdFilter,
    Limit,
    Offset,
    OrderDetail,
    OrderRow,
)
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.audit_reading import check_logs, entries_of
from chordesk.tools.orders.snapshots import symbols_of, take_snapshot

router = APIRouter(route_class=WriteRoute)


@router.get("/orders", tags=["orders"])
def orders(
    context: Context,
    run: IdFilter = None,
    symbol: IdFilter = None,
    state: OrderState | None = None,
    account: IdFilter = None,
    day: DayFilter = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[OrderRow]:
    """List orders, the newest first. day: of the exchange, in market time."""
    with context.store.read() as session:
        run_id = find_run(session, run).id if run else None
        rows = list_orders(
            session, run_id, symbol.upper() if symbol else None, state, limit, offset=offset, account=account, day=day
        )
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


@router.get("/orders/{order_id}/checks", tags=["orders"])
def checks(context: Context, order_id: Id) -> OrderChecks:
    """Show each rule's answer on an order, with its figure and limit. Those of an order that is not sent yet are made
    now, with what has changed since its preview and what would refuse it; nothing is decided by it."""
    with context.store.read() as session:
        found = find_order(session, order_id)
        symbols = symbols_of(session, [found], found.account)
        ask = found.account == context.settings.account and found.state in WAITS
    market = _market_of(context, found.run_id) if ask else None
    snapshot = take_snapshot(market, symbols) if market is not None else None
    with context.store.read() as session:
        order = find_order(session, found.id)
        return order_checks(session, context.settings, order, snapshot, market.name if market else "")


def _market_of(context: ServiceContext, run_id: str) -> MarketData:
    """Return the market that an order would be sent at: its run's, or the account's where that is later."""
    account = context.desk.account_market()
    market = context.desk.market_of(run_id, instead=account)
    return account if market.clock.now() <= account.clock.now() else market


@router.get("/orders/{order_id}/graph", tags=["orders"])
def graph(context: Context, order_id: Id) -> OrderGraph:
    """Show an order's lineage as nodes and edges: threads, turns, hits, reports, verdict, decision, order, fills."""
    with context.store.read() as session:
        return order_graph(session, find_order(session, order_id))


@router.get("/limits", tags=["orders"])
def limits(context: Context) -> LimitsView:
    """Show the limits in force by denial code, and the mandates of brokers that move real money."""
    with context.store.read() as session:
        return limits_view(session, context.settings)


@router.get("/audit", tags=["orders"])
def audit(context: Context) -> AuditState:
    """Check the audit log line by line, and show for each chain whether it is whole, its length and its last hash."""
    checked = check_logs(context.store, context.settings)
    with context.store.read() as session:
        return audit_state(session, checked)


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
