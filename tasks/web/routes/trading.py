"""The kill switch: halt every account, and let the service's own account trade again."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import structlog
from fastapi import APIRouter, Response

from chordesk.models.errors import DatabaseDown, DeskError, UsageError
from chordesk.models.orders import OrderOutcome
from chordesk.models.states import TradingState
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.idempotency import WriteRoute, decided_once
from chordesk.tasks.web.schemas import HaltBody, HaltedAccount, HaltProblem, HaltReport, ResumeBody, ResumeReport
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders import kill_switch

log = structlog.get_logger(__name__)
router = APIRouter(tags=["trading"], route_class=WriteRoute)


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

    def positions_closed(self, outcomes: Sequence[OrderOutcome]) -> None:
        self.found["closing_orders"] = list(outcomes)

    def failed(self, error: DeskError) -> None:
        self.problems.append(HaltProblem(detail=str(error.args[0]), remedy=error.remedy))


_INCOMPLETE: dict[int | str, dict[str, Any]] = {
    202: {
        "model": HaltReport,
        "description": "Trading is halted; something is left to do, see problems and open_orders.",
    }
}


@router.post("/halt", responses=_INCOMPLETE)
@decided_once
def halt(context: Context, body: HaltBody, response: Response) -> HaltReport:
    """Stop trading of every account now: nothing is submitted any more, orders that wait are denied, open ones of this
    service's broker are cancelled; flatten, with its confirmation, closes its positions too, at market."""
    _require_confirmation(body, context.settings.account)
    by, collected = f"{body.by} via the API", _Collected()
    log.warning("api.halt", by=by, flatten=body.flatten)
    request = kill_switch.HaltRequest(by, body.why or kill_switch.HALTED, body.flatten)
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
    wanted = kill_switch.confirmation(account)
    if body.flatten and body.confirm != wanted:
        given = "is missing" if body.confirm is None else f"is {body.confirm!r}"
        raise UsageError(
            f"the confirmation of flatten {given}; nothing was halted",
            remedy=f"send confirm={wanted!r}, or halt without flatten",
        )


def _connected(desk: Desk) -> tuple[MarketData, Broker]:
    market = desk.account_market()
    return market, desk.broker_on(market)


@router.post("/resume")
def resume(context: Context, body: ResumeBody) -> ResumeReport:
    """Let this service's account trade again, or only give exposure back; other accounts stay as they are."""
    by = f"{body.by} via the API"
    log.warning("api.resume", by=by, reduce_only=body.reduce_only)
    why = body.why or kill_switch.RESUMED
    still = kill_switch.resume(context.store, context.settings, by, why, reduce_only=body.reduce_only)
    state = TradingState.REDUCING if body.reduce_only else TradingState.ACTIVE
    return ResumeReport(account=context.settings.account, state=state, still_halted=still)
