"""Routes of runs: progress, results, turns and a stop; their course, pictures, reports and verdicts."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import structlog
from fastapi import APIRouter, Path, Query, Response
from pydantic import AfterValidator
from sqlmodel import select

from chordesk.models.database.blobs import path_in_home, removed_at, stored
from chordesk.models.database.lookup import ACTS, by_prefix
from chordesk.models.errors import NotFound, RedisDown
from chordesk.models.states import RunState
from chordesk.models.tables.runs import Artifact, Report, Run, Turn
from chordesk.tasks.engine import kinds
from chordesk.tasks.reading.chain import CandidateTable, Chain, Funnel, candidate_table, chain, funnel
from chordesk.tasks.reading.outlook import Spending, spending
from chordesk.tasks.reading.report_view import ReportDetail, VerdictDetail, list_reports, report_detail, verdict_detail
from chordesk.tasks.reading.run_details import (
    ListedRun,
    Timeline,
    course,
    course_type,
    detail,
    detail_type,
    listed,
    timeline,
)
from chordesk.tasks.reading.run_list import SORTS, RunComparison, RunFilter, comparison, run_page
from chordesk.tasks.reading.runs import CandidateRow, Wait, candidates, waits
from chordesk.tasks.reports.report_schema import MEDIA_TYPES, Format, run_document_type
from chordesk.tasks.web.context import Context, ServiceContext
from chordesk.tasks.web.idempotency import WriteRoute, decided_once
from chordesk.tasks.web.schemas import (
    Backtests,
    DayFilter,
    Id,
    IdFilter,
    Limit,
    Offset,
    StopRequest,
    TextFilter,
    Ticker,
    TurnDetail,
    VerdictRow,
    tool_calls,
    turns,
    verdicts,
)
from chordesk.tasks.web.security import JsonRoute
from chordesk.tasks.worker.control import Stop, stop_runs
from chordesk.tasks.workflows.runs import Request, planned, request_like, request_of, request_type, with_budget

log = structlog.get_logger(__name__)


router = APIRouter(tags=["runs"], route_class=WriteRoute)

# With what features add to them.
if TYPE_CHECKING:
    from chordesk.tasks.reading.run_details import RunCourse, RunDetail

    RunRequest = Request
else:
    RunRequest, RunCourse, RunDetail = request_type(), course_type(), detail_type()

STOP_SECONDS = 3.0  # with healthy workers a stop is over within one


def _known(kind: str | None) -> str | None:
    """Raises ValueError for a kind of run that no workflow declares."""
    if kind is not None and kind not in kinds.run_kinds():
        raise ValueError(f"kinds of runs are {', '.join(kinds.run_kinds())}")
    return kind


RunKindFilter = Annotated[
    str | None, Query(json_schema_extra={"enum": [*kinds.run_kinds(), None]}), AfterValidator(_known)
]


def _sort(name: str) -> str:
    """Raises ValueError for a column that no list is sorted by."""
    if name not in SORTS:
        raise ValueError(f"a list of runs is sorted by {', '.join(SORTS)}")
    return name


RunSort = Annotated[str, Query(json_schema_extra={"enum": [*SORTS]}), AfterValidator(_sort)]
Down = Annotated[bool, Query(description="the largest or the latest first")]
Short = Annotated[bool, Query(description="leave out params, settings and summary")]
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
    backtests: Backtests = True,
    account: IdFilter = None,
    parent: IdFilter = None,
    sort: RunSort = "began",
    down: Down = True,
    limit: Limit = 20,
    offset: Offset = 0,
    short: Short = False,
) -> list[ListedRun]:
    """List runs with what they came to, progress, tokens and money, the newest first.

    day: New York date on which a run was opened; market_day: the date its market was on; symbol: one of its candidates
    or orders; parent: the run that opened it.
    """
    wanted = RunFilter(kind, state, day, market_day, symbol, backtests=backtests, account=account, parent=parent)
    with context.store.read() as session:
        found = run_page(session, context.settings, wanted, limit, offset, short=short, sort=sort, down=down)
        rows = listed(session, found.runs)
    response.headers[TOTAL] = str(found.total)
    return rows


@router.post("/runs", status_code=HTTPStatus.CREATED)
def start(context: Context, asked: RunRequest) -> Run:
    """Start a run with the desk's settings, and return it."""
    context.require_agreement()
    log.info("api.start", kind=asked.kind, by=asked.by)
    return asked.open(context.notifier.app(), with_budget(asked.budget_tokens))


@router.get("/runs/{run_id}/request")
def run_request(context: Context, run_id: Id) -> dict[str, Any]:
    """Show what POST /runs takes to start another run like this one."""
    with context.store.read() as session:
        return request_like(by_prefix(session, Run, run_id), context.settings)


@router.get("/spending")
def run_spending(
    context: Context, asked: Annotated[str, Query(description="what POST /runs would be given, as JSON")]
) -> Spending:
    """Forecast a run's turns, tokens and money by earlier turns of its roles and models."""
    app = context.notifier.app()
    run = planned(app, request_of(asked))
    with context.store.read() as session:
        return spending(session, app.desk.settings, run)


@router.get("/runs/{run_id}")
def run(context: Context, run_id: Id) -> RunDetail:
    """Show a run: progress, candidates, actions, attempts at its steps."""
    with context.store.read() as session:
        return detail(session, context.settings, by_prefix(session, Run, run_id))


@router.get("/runs/{run_id}/waits")
def run_waits(context: Context, run_id: Id) -> list[Wait]:
    """List what a run waits for: a worker, a model's limit, a person, a session's open, another run."""
    with context.store.read() as session:
        return waits(session, by_prefix(session, Run, run_id), context.settings)


@router.get("/runs/{run_id}/candidates")
def run_candidates(context: Context, run_id: Id) -> list[CandidateRow]:
    """List a run's candidates by rank.

    A trade run has those of its source run.
    """
    with context.store.read() as session:
        return candidates(session, by_prefix(session, Run, run_id))


@router.get("/runs/{run_id}/verdicts")
def run_verdicts(context: Context, run_id: Id) -> list[VerdictRow]:
    """List a run's verdicts by symbol, each with its reports.

    A trade run has those of its source run.
    """
    with context.store.read() as session:
        return verdicts(session, by_prefix(session, Run, run_id))


@router.get("/runs/{run_id}/lineage/{symbol}")
def run_lineage(context: Context, run_id: Id, symbol: Ticker) -> Chain:
    """Show the way from a symbol's hits to its fills, as nodes and edges."""
    with context.store.read() as session:
        return chain(session, by_prefix(session, Run, run_id), symbol)


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
        found = by_prefix(session, Run, run_id).id
        return list(turns(session, limit, offset, run_id=found, role=role, subject=subject, thread_id=thread))


@router.get("/turns/{turn_id}", tags=["turns"])
def turn(context: Context, turn_id: Id) -> TurnDetail:
    """Show a turn with its text and its tool calls."""
    with context.store.read() as session:
        found = by_prefix(session, Turn, turn_id, Turn.codex_turn_id)
        return TurnDetail(turn=found, tool_calls=list(tool_calls(session, found)))


_STOPPING: dict[int | str, dict[str, Any]] = {
    202: {"model": Stop, "description": "Steps are still held; the run ends with them, or with their leases."}
}


@router.post("/runs/{run_id}/stop", responses=_STOPPING)
@decided_once
def stop(context: Context, run_id: Id, asked: StopRequest, response: Response) -> Stop:
    """End a run: interrupt its turns, submit none of its orders."""
    with context.store.read() as session:
        found = by_prefix(session, Run, run_id, least=ACTS).id
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


artifacts_router = APIRouter(tags=["runs"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the bytes")]


@artifacts_router.get(
    "/artifacts/{digest}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}, "description": "The bytes of the picture."}},
)
def artifact(context: Context, digest: Digest) -> Response:
    """Show a picture that a tool gave to a turn."""
    with context.store.read() as session:
        kind = session.exec(select(Artifact.kind).where(Artifact.digest == digest).limit(1)).first()
    if kind is None:
        raise NotFound(f"there is no artifact {digest}", remedy="a run lists its artifacts with their digests")
    data = stored(context.settings.home, digest, kind)
    if data is None and (at := removed_at(context.settings.home, path_in_home(digest, kind))) is not None:
        remedy = "pictures are kept for DESK_KEEP_ARTIFACT_DAYS after their run; its row and figures stay"
        raise NotFound(f"the file of artifact {digest} was removed on {at:%Y-%m-%d}", remedy=remedy)
    if data is None:
        remedy = "it is in the data folder of the worker that ran the turn"
        raise NotFound(f"the file of artifact {digest} is not here, or not as it was", remedy=remedy)
    return Response(data, media_type=kind)


# Routes of a run's course: its timeline, its funnel, the table of its candidates, what differs from another, and its
# report as a file.

course_router = APIRouter(tags=["runs"], route_class=JsonRoute)


@course_router.get("/runs/{run_id}/course")
def run_course(context: Context, run_id: Id) -> RunCourse:
    """Show a run with funnel, timeline and candidates, all of one moment."""
    with context.store.read() as session:
        return course(session, context.settings, by_prefix(session, Run, run_id))


@course_router.get("/runs/{run_id}/timeline")
def run_timeline(context: Context, run_id: Id) -> Timeline:
    """Show each step with its attempts, workers, waits and turns."""
    with context.store.read() as session:
        return timeline(session, by_prefix(session, Run, run_id))


@course_router.get("/runs/{run_id}/funnel")
def run_funnel(context: Context, run_id: Id) -> Funnel:
    """Show universe, hits, candidates, verdicts, orders and fills, with their ids."""
    with context.store.read() as session:
        return funnel(session, by_prefix(session, Run, run_id))


@course_router.get("/runs/{run_id}/table")
def run_table(context: Context, run_id: Id) -> CandidateTable:
    """Show candidates with one cell a role, verdict with rule, and orders."""
    with context.store.read() as session:
        return candidate_table(session, by_prefix(session, Run, run_id))


@course_router.get("/runs/{run_id}/compare/{other_id}")
def compare(context: Context, run_id: Id, other_id: Id) -> RunComparison:
    """Compare two runs of one kind: candidates, verdicts, tokens, money, settings."""
    with context.store.read() as session:
        return comparison(session, context.settings, by_prefix(session, Run, run_id), by_prefix(session, Run, other_id))


_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "model": run_document_type(),
        "content": {"text/html": {}, "text/markdown": {}},
        "description": "The report, as a file to keep.",
    }
}


@course_router.get("/runs/{run_id}/report", response_class=Response, responses=_FILE)
def run_report(context: Context, run_id: Id, format: Format = "html") -> Response:
    """Make the run's report as HTML, markdown or JSON."""
    # The library of templates: a service that is asked for no report has no use for it.
    from chordesk.tasks.reports.documents import run_document
    from chordesk.tasks.reports.formats import policy, rendered

    with context.store.read() as session:
        found = by_prefix(session, Run, run_id).id
    made = run_document(context.desk, found)
    headers = {
        "Content-Disposition": f'attachment; filename="{made.title.replace(" ", "-")}.{format}"',
        "Content-Security-Policy": f"{policy()}; frame-ancestors 'none'",
    }
    text = rendered(made, format)
    return Response(text, media_type=MEDIA_TYPES[format], headers=headers)


reports_router = APIRouter(tags=["reports"], route_class=JsonRoute)


@reports_router.get("/reports")
def reports(
    context: Context,
    run: IdFilter = None,
    symbol: IdFilter = None,
    role: TextFilter = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[Report]:
    """List reports, the newest first."""
    with context.store.read() as session:
        run_id = by_prefix(session, Run, run).id if run else None
        name = symbol.upper() if symbol else None
        return list(list_reports(session, limit, offset, run_id=run_id, symbol=name, role=role))


@reports_router.get("/reports/{report_id}")
def report(context: Context, report_id: Id) -> ReportDetail:
    """Show a report: answer, the tool call behind each figure, turn, thread, verdicts."""
    with context.store.read() as session:
        return report_detail(session, report_id)


@reports_router.get("/verdicts/{verdict_id}")
def verdict(context: Context, verdict_id: Id) -> VerdictDetail:
    """Show a verdict: its rule, its reports, what was missing, its orders."""
    with context.store.read() as session:
        return verdict_detail(session, verdict_id)
