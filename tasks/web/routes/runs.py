"""Routes of runs: their progress, results and turns, and a stop."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator

from chordesk.models.errors import RedisDown
from chordesk.models.states import RunState
from chordesk.models.tables.runs import Run, Turn
from chordesk.tasks.engine import kinds
from chordesk.tasks.views.history.listing import RunFilter, RunRow, run_page
from chordesk.tasks.views.lineage import lineage
from chordesk.tasks.views.run_detail import RunDetail, detail
from chordesk.tasks.views.run_view import CandidateRow, candidates, find_run
from chordesk.tasks.web.context import Context, ServiceContext
from chordesk.tasks.web.idempotency import WriteRoute, decided_once
from chordesk.tasks.web.reads import find_turn, tool_calls, turns, verdicts
from chordesk.tasks.web.schemas import (
    AnalyzeRequest,
    DayFilter,
    EpisodeRequest,
    Id,
    IdFilter,
    Limit,
    Lineage,
    Offset,
    ResearchRequest,
    RunRequest,
    ScreenRequest,
    StopRequest,
    TextFilter,
    Ticker,
    TradeRequest,
    TurnDetail,
    VerdictRow,
)
from chordesk.tasks.worker.stopping import Stop, stop_runs
from chordesk.tasks.workflows.analyze import open_analysis
from chordesk.tasks.workflows.episode.opening import open_episode
from chordesk.tasks.workflows.research import open_portfolio, open_research
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tasks.workflows.trade import open_trade

log = structlog.get_logger(__name__)
router = APIRouter(tags=["runs"], route_class=WriteRoute)

STOP_SECONDS = 3.0  # with healthy workers a stop is over within one


def _known(kind: str | None) -> str | None:
    """Raises ValueError for a kind of run that no workflow declares."""
    if kind is not None and kind not in kinds.run_kinds():
        raise ValueError(f"kinds of runs are {', '.join(kinds.run_kinds())}")
    return kind


RunKindFilter = Annotated[
    str | None, Query(json_schema_extra={"enum": [*kinds.run_kinds(), None]}), AfterValidator(_known)
]
Short = Annotated[bool, Query(description="leave out params, settings and summary: they are null")]
TOTAL = "X-Total-Count"
_LISTED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {TOTAL: {"schema": {"type": "integer"}, "description": "how many match, on all pages"}}}
}


@router.get("/runs", responses=_LISTED)
def runs(
    context: Context,
    response: Response,
    kind: RunKindFilter = None,
    state: RunState | None = None,
    day: DayFilter = None,
    market_day: DayFilter = None,
    symbol: IdFilter = None,
    limit: Limit = 20,
    offset: Offset = 0,
    short: Short = False,
) -> list[RunRow]:
    """List runs with their progress, tokens and money, the newest first. day: New York date on which a run was opened;
    market_day: the date its market was on; symbol: one of its candidates or orders."""
    wanted = RunFilter(kind, state, day, market_day, symbol)
    with context.store.read() as session:
        found = run_page(session, context.settings, wanted, limit, offset, short=short)
    response.headers[TOTAL] = str(found.total)
    return found.runs


@router.post("/runs", status_code=HTTPStatus.CREATED)
def start(context: Context, asked: RunRequest) -> Run:
    """Start a run, with the desk's settings, and return it as it begins."""
    context.require_agreement()
    log.info("api.start", kind=asked.kind, by=asked.by)
    app = context.notifier.app()
    match asked:
        case ScreenRequest():
            universe = ",".join(asked.symbols) if asked.symbols else None
            made = open_screen(app, universe, asked.lenses, asked.most)
            assert made is not None, "only a scheduled slot can be taken already"
            return made
        case ResearchRequest():
            return open_research(app, asked.symbols) if asked.symbols else open_portfolio(app, force=asked.force)
        case AnalyzeRequest():
            return open_analysis(app, asked.symbols, asked.request(), asked.depth)
        case EpisodeRequest():
            begun = open_episode(app, asked.symbols, asked.questions, asked.rounds)
            assert begun is not None, "only a scheduled slot can be taken already"
            return begun
        case TradeRequest():
            with context.store.read() as session:
                source = find_run(session, asked.run).id
            return open_trade(app, source)


@router.get("/runs/{run_id}")
def run(context: Context, run_id: Id) -> RunDetail:
    """Show a whole run: its progress, its candidates, the trader's actions, and each attempt at its steps."""
    with context.store.read() as session:
        return detail(session, context.settings, find_run(session, run_id))


@router.get("/runs/{run_id}/candidates")
def run_candidates(context: Context, run_id: Id) -> list[CandidateRow]:
    """List a run's candidates by rank; for a trade run those of its source run."""
    with context.store.read() as session:
        return candidates(session, find_run(session, run_id))


@router.get("/runs/{run_id}/verdicts")
def run_verdicts(context: Context, run_id: Id) -> list[VerdictRow]:
    """List a run's verdicts by symbol, each with its reports; for a trade run those of its source run."""
    with context.store.read() as session:
        return verdicts(session, find_run(session, run_id))


@router.get("/runs/{run_id}/lineage/{symbol}")
def run_lineage(context: Context, run_id: Id, symbol: Ticker) -> Lineage:
    """Show the lineage of a symbol's orders, back to the screen hit."""
    with context.store.read() as session:
        return Lineage.model_validate(lineage(session, find_run(session, run_id), symbol))


@router.get("/runs/{run_id}/turns", tags=["turns"])
def run_turns(
    context: Context,
    run_id: Id,
    role: TextFilter = None,
    subject: TextFilter = None,
    thread: IdFilter = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> list[Turn]:
    """List a run's turns in the order of their start."""
    with context.store.read() as session:
        found = find_run(session, run_id).id
        return list(turns(session, limit, offset, run_id=found, role=role, subject=subject, thread_id=thread))


@router.get("/turns/{turn_id}", tags=["turns"])
def turn(context: Context, turn_id: Id) -> TurnDetail:
    """Show a turn with its text and its tool calls."""
    with context.store.read() as session:
        found = find_turn(session, turn_id)
        return TurnDetail(turn=found, tool_calls=list(tool_calls(session, found)))


_STOPPING: dict[int | str, dict[str, Any]] = {
    202: {"model": Stop, "description": "Steps are still held; the run ends with them, or with their leases."}
}


@router.post("/runs/{run_id}/stop", responses=_STOPPING)
@decided_once
def stop(context: Context, run_id: Id, asked: StopRequest, response: Response) -> Stop:
    """End a run now: interrupt its turns and submit none of its orders any more."""
    with context.store.read() as session:
        found = find_run(session, run_id).id
    log.info("api.stop", run=found, by=asked.by)
    (stopped,) = stop_runs(
        context.store, context.settings, [found], lambda ids: _notify_workers(context, ids), STOP_SECONDS
    )
    response.status_code = HTTPStatus.OK if stopped.over else HTTPStatus.ACCEPTED
    return stopped


def _notify_workers(context: ServiceContext, run_ids: list[str]) -> None:
    try:
        context.notifier.stop(run_ids)
    except RedisDown as error:
        log.warning("api.workers_not_notified", error=str(error.args[0]))
