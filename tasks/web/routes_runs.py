"""Runs: what was run, what came of it, and the end of one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from fastapi import APIRouter, Response

from models.errors import RedisDown
from models.states import RunKind, RunState
from models.tables import Run, Turn
from tasks.lineage import lineage
from tasks.run_detail import RunDetail, detail
from tasks.run_view import CandidateRow, candidates, find_run, list_runs
from tasks.stopping import Stop, stop_runs
from tasks.web.reads import find_turn, tool_calls, turns, verdicts
from tasks.web.schemas import (
    Id,
    IdFilter,
    Limit,
    Lineage,
    Offset,
    StopRequest,
    TextFilter,
    Ticker,
    TurnDetail,
    VerdictRow,
)
from tasks.web.security import JsonRoute
from tasks.web.site import Here, Site

log = structlog.get_logger(__name__)
router = APIRouter(tags=["runs"], route_class=JsonRoute)

STOP_SECONDS = 3.0  # with healthy workers a stop is over within one


@router.get("/runs")
def runs(
    here: Here, kind: RunKind | None = None, state: RunState | None = None, limit: Limit = 20, offset: Offset = 0
) -> list[Run]:
    """Runs, the newest first."""
    with here.store.read() as session:
        return list(list_runs(session, limit, offset=offset, kind=kind, state=state))


@router.get("/runs/{run_id}")
def run(here: Here, run_id: Id) -> RunDetail:
    """A whole run: how far it is, its candidates, the trader's actions, and each attempt at its steps."""
    with here.store.read() as session:
        return detail(session, find_run(session, run_id))


@router.get("/runs/{run_id}/candidates")
def run_candidates(here: Here, run_id: Id) -> list[CandidateRow]:
    """A run's candidates by rank; of a trade run those of the run that it trades on."""
    with here.store.read() as session:
        return candidates(session, find_run(session, run_id))


@router.get("/runs/{run_id}/verdicts")
def run_verdicts(here: Here, run_id: Id) -> list[VerdictRow]:
    """A run's verdicts by symbol, each with the reports that it rests on; of a trade run as with its candidates."""
    with here.store.read() as session:
        return verdicts(session, find_run(session, run_id))


@router.get("/runs/{run_id}/lineage/{symbol}")
def run_lineage(here: Here, run_id: Id, symbol: Ticker) -> Lineage:
    """What the orders on a symbol rest on, back to the screen's hit."""
    with here.store.read() as session:
        return Lineage.model_validate(lineage(session, find_run(session, run_id), symbol))


@router.get("/runs/{run_id}/turns", tags=["turns"])
def run_turns(
    here: Here,
    run_id: Id,
    role: TextFilter = None,
    subject: TextFilter = None,
    thread: IdFilter = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> list[Turn]:
    """A run's turns in the order in which they began."""
    with here.store.read() as session:
        found = find_run(session, run_id).id
        return list(turns(session, limit, offset, run_id=found, role=role, subject=subject, thread_id=thread))


@router.get("/turns/{turn_id}", tags=["turns"])
def turn(here: Here, turn_id: Id) -> TurnDetail:
    """A turn, what was said in it, and the tools it called."""
    with here.store.read() as session:
        found = find_turn(session, turn_id)
        return TurnDetail(turn=found, tool_calls=list(tool_calls(session, found)))


_STOPPING: dict[int | str, dict[str, Any]] = {
    202: {"model": Stop, "description": "Steps are still held; the run ends with them, or with their leases."}
}


@router.post("/runs/{run_id}/stop", responses=_STOPPING)
def stop(here: Here, run_id: Id, asked: StopRequest, response: Response) -> Stop:
    """End a run now: its turns are interrupted and nothing of it is submitted any more."""
    with here.store.read() as session:
        found = find_run(session, run_id).id
    log.info("api.stop", run=found, by=asked.by)
    (stopped,) = stop_runs(here.store, here.settings, [found], lambda ids: _tell(here, ids), STOP_SECONDS)
    response.status_code = HTTPStatus.OK if stopped.over else HTTPStatus.ACCEPTED
    return stopped


def _tell(here: Site, run_ids: list[str]) -> None:
    try:
        here.messenger.stop(run_ids)
    except RedisDown as error:
        log.warning("api.workers_not_told", error=str(error.args[0]))
