"""Routes of orders, of requests that wait for a person, and of the kill switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Response
from fastapi import Path as PathOf
from pydantic import Field

from chordesk.models.database.lookup import by_prefix
from chordesk.models.errors import DatabaseDown, DeskError, NotWaiting, OrderError, UsageError
from chordesk.models.orders import BrokerPosition
from chordesk.models.states import ApprovalState, OrderState, TradingState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.approval_requests import AnswerResult, WaitingOrder, WaitingRequest, answer, asked_of, waiting
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.reading.order_history import (
    AuditState,
    LimitsView,
    OrderChecks,
    OrderDetail,
    audit_state,
    checks_now,
    limits_view,
    list_orders,
    order_detail,
)
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.idempotency import WriteRoute, decided_once
from chordesk.tasks.web.schemas import (
    AnswerRequest,
    ApproveRequest,
    Backtests,
    CloseRequest,
    DayFilter,
    HaltBody,
    HaltedAccount,
    HaltProblem,
    HaltReport,
    Id,
    IdFilter,
    LeftPosition,
    Limit,
    Offset,
    OrderRow,
    ResumeBody,
    ResumeReport,
)
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders import kill_switch
from chordesk.tools.orders.audit_reading import check_logs, entries_of

router = APIRouter(route_class=WriteRoute)
Held = Annotated[
    str, PathOf(max_length=32, pattern=r"^[A-Za-z0-9][A-Za-z0-9.^=-]*$", description="a symbol or contract")
]


@router.get("/orders", tags=["orders"])
def orders(
    context: Context,
    run: IdFilter = None,
    symbol: IdFilter = None,
    state: OrderState | None = None,
    account: IdFilter = None,
    day: DayFilter = None,
    backtests: Backtests = True,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[OrderRow]:
    """List orders, the newest first.

    day: of the exchange, in market time.
    """
    with context.store.read() as session:
        run_id = by_prefix(session, Run, run).id if run else None
        rows = list_orders(
            session, run_id, symbol.upper() if symbol else None, state, limit, offset=offset, account=account, day=day,
            but_backtests=None if backtests else context.settings.account,
        )  # fmt: skip
        return [OrderRow(order=order, preview=preview) for order, preview in rows]


@router.get("/orders/{order_id}", tags=["orders"])
def order(context: Context, order_id: Id, log: bool = False) -> OrderDetail:
    """Show an order: size, preview, approval, fills, what it rests on.

    log: add its lines in the audit log, which is read and checked as a whole.
    """
    with context.store.read() as session:
        found = order_detail(session, by_prefix(session, Order, order_id))
    if not log:
        return found
    lines = entries_of(check_logs(context.store, context.settings), found.order.id, found.order.created_at)
    return found.model_copy(update={"log": lines})


@router.get("/orders/{order_id}/checks", tags=["orders"])
def checks(context: Context, order_id: Id) -> OrderChecks:
    """Show each rule's answer, with its figure and limit.

    For an order that is not sent yet the rules are asked now: what has changed since its preview, what would refuse
    it, and what it would do to the account. Nothing is decided.
    """
    return checks_now(context.store, context.settings, order_id, context.desk.order_market)


@router.get("/limits", tags=["orders"])
def limits(context: Context) -> LimitsView:
    """Show the limits in force by denial code, and the mandates for real money."""
    with context.store.read() as session:
        return limits_view(session, context.settings)


@router.get("/audit", tags=["orders"])
def audit(context: Context) -> AuditState:
    """Check the audit log; show each chain's length and last hash."""
    checked = check_logs(context.store, context.settings)
    with context.store.read() as session:
        return audit_state(session, checked)


Asked = Annotated[WaitingOrder | WaitingRequest, Field(discriminator="kind")]


@router.get("/approvals", tags=["approvals"])
def approvals(context: Context) -> list[Asked]:
    """List what waits for a person, the oldest first."""
    with context.store.read() as session:
        return waiting(session)


@router.get("/approvals/{id_}", tags=["approvals"])
def approval(context: Context, id_: Id) -> Asked:
    """Show a request: whether it still waits, or who answered what.

    The id is the order's, its approval's or the request's.
    """
    with context.store.read() as session:
        return asked_of(session, id_)


@router.post("/positions/{symbol}/close", status_code=HTTPStatus.CREATED, tags=["orders"])
def close(context: Context, symbol: Held, asked: CloseRequest) -> Run:
    """Close a position that the service's account holds: start the run whose order does, and return it.

    The order passes the checks and the approval of any other.
    """
    from chordesk.tasks.workflows.trade import open_close

    context.require_agreement()
    log.info("api.close", symbol=symbol, by=asked.by)
    return open_close(context.notifier.app(), symbol.upper(), f"{asked.by} via the API", asked.why)


@router.post("/approvals/{id_}", tags=["approvals"])
@decided_once
def decide(context: Context, id_: Id, asked: AnswerRequest) -> AnswerResult:
    """Approve or refuse an order or a model's request.

    The id is the order's, its approval's or the request's.
    """
    by = f"{asked.by} via the API"
    answers = asked.answers if isinstance(asked, ApproveRequest) else None
    found = answer(
        context.store, context.settings, context.notifier.trade, id_,
        approve=asked.answer == "approve", by=by, why=asked.why, answers=answers, expect=asked.expect,
    )  # fmt: skip
    if found.state is ApprovalState.EXPIRED and found.order is None:
        raise NotWaiting(found.too_late)
    if found.state is ApprovalState.EXPIRED:
        raise OrderError(found.too_late, remedy="decide on a new preview: `desk trade RUN` asks again")
    return found


log = structlog.get_logger(__name__)
trading_router = APIRouter(tags=["trading"], route_class=WriteRoute)


class _Collected:
    """Listener that collects the steps of a halt for the response."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.accounts: list[HaltedAccount] = []
        self.problems: list[HaltProblem] = []

    def file_written(self, path: Path) -> None:
        self.found["file"] = str(path)

    def account_halted(self, account: str, denied: Sequence[str]) -> None:
        self.accounts.append(HaltedAccount(account=account, denied=list(denied)))

    def orders_left_to_worker(self) -> None:
        """Do nothing: the problem before it names the broker that cannot be reached."""

    def orders_cancelled(self, left: Sequence[str], protective: Sequence[str]) -> None:
        self.found["open_orders"], self.found["protective_orders"] = list(left), list(protective)

    def positions_closed(self, orders: Sequence[Order], filled: Mapping[str, Decimal]) -> None:
        self.found["closing_orders"] = list(orders)

    def others_left(self, positions: Sequence[BrokerPosition]) -> None:
        self.found["left_at_broker"] = [LeftPosition(symbol=row.symbol, quantity=row.quantity) for row in positions]

    def failed(self, error: DeskError) -> None:
        self.problems.append(HaltProblem(detail=str(error.args[0]), remedy=error.remedy))


_INCOMPLETE: dict[int | str, dict[str, Any]] = {
    202: {
        "model": HaltReport,
        "description": "Trading is halted; something is left to do, see problems and open_orders.",
    }
}


@trading_router.post("/halt", responses=_INCOMPLETE)
@decided_once
def halt(context: Context, body: HaltBody, response: Response) -> HaltReport:
    """Stop trading of every account now; with `flatten`, close the desk's positions too.

    Nothing is submitted any more, waiting orders are denied, open ones of this service's broker are cancelled.
    Flattening needs its confirmation and sells at market; with `all` it closes what else the broker holds.
    """
    _require_confirmation(body, context.settings.account)
    by, collected = f"{body.by} via the API", _Collected()
    log.warning("api.halt", by=by, flatten=body.flatten)
    request = kill_switch.HaltRequest(by, body.why or kill_switch.HALTED, body.flatten, body.all)
    result = kill_switch.halt(
        context.settings, request, lambda: context.store, lambda _: _connected(context.desk), collected
    )
    context.notifier.trade()
    if not result.in_force:
        raise DatabaseDown(
            "; ".join(found.detail for found in collected.problems), remedy=collected.problems[-1].remedy
        )
    response.status_code = HTTPStatus.OK if result.complete else HTTPStatus.ACCEPTED
    return HaltReport(
        complete=result.complete, accounts=collected.accounts, problems=collected.problems, **collected.found
    )


def _require_confirmation(body: HaltBody, account: str) -> None:
    """Raise UsageError for a flatten that names another account than it would close the positions of, or none."""
    if body.all and not body.flatten:
        raise UsageError("`all` is about flatten; nothing was halted", remedy="send flatten too, or leave out `all`")
    wanted = kill_switch.confirmation(account, everything=body.all)
    if body.flatten and body.confirm != wanted:
        given = "is missing" if body.confirm is None else f"is {body.confirm!r}"
        raise UsageError(
            f"the confirmation of flatten {given}; nothing was halted",
            remedy=f"send confirm={wanted!r}, or halt without flatten",
        )


def _connected(desk: Desk) -> tuple[MarketData, Broker]:
    market = desk.account_market()
    return market, desk.broker_on(market)


@trading_router.post("/resume")
def resume(context: Context, body: ResumeBody) -> ResumeReport:
    """Let this service's account trade again, or only reduce."""
    account = context.settings.account
    if body.account not in (None, account):
        remedy = "load the page again: the desk was started with another account"
        raise UsageError(f"this desk has the account {account}, not {body.account}; nothing was resumed", remedy=remedy)
    by = f"{body.by} via the API"
    log.warning("api.resume", by=by, reduce_only=body.reduce_only)
    why = body.why or kill_switch.RESUMED
    still = kill_switch.resume(context.store, context.settings, by, why, reduce_only=body.reduce_only)
    state = TradingState.REDUCING if body.reduce_only else TradingState.ACTIVE
    return ResumeReport(account=context.settings.account, state=state, still_halted=still)
