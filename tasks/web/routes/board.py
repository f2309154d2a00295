"""Routes of a run's board: its signals, forecasts and tally, and the stop of one voice."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from fastapi import APIRouter, Response

from chordesk.models.errors import UsageError
from chordesk.tasks.views.board.board_view import BoardView, TallyView, board_view, tally_of
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.idempotency import WriteRoute, decided_once
from chordesk.tasks.web.schemas import Id, InterruptedTurn, StoppedVoice, StopRequest, Ticker
from chordesk.tasks.workflows.episode.rounds import stop_voice

log = structlog.get_logger(__name__)
router = APIRouter(tags=["board"], route_class=WriteRoute)

STOP_SECONDS = 3.0  # with healthy workers a voice's turn ends within one


@router.get("/runs/{run_id}/board")
def run_board(context: Context, run_id: Id) -> BoardView:
    """Show a run's board: signals, questions, forecasts with their citations, voices, and the tally."""
    with context.store.read() as session:
        return board_view(session, find_run(session, run_id))


@router.get("/runs/{run_id}/episode")
def run_episode(context: Context, run_id: Id) -> TallyView:
    """Show the tally of a run's board: its content as markdown, and as JSON in `summary`."""
    with context.store.read() as session:
        run = find_run(session, run_id)
        found = tally_of(session, str(run.params.get("source_run") or run.id))
    if found is None:
        raise UsageError(f"run {run.id} has no tally", remedy="an episode has one at its end")
    return found


_STOPPING: dict[int | str, dict[str, Any]] = {
    202: {"model": StoppedVoice, "description": "Its step is still held; it ends with its turn, or with its lease."}
}


@router.post("/runs/{run_id}/voices/{voice}/stop", responses=_STOPPING)
@decided_once
def stop_one_voice(context: Context, run_id: Id, voice: Ticker, asked: StopRequest, response: Response) -> StoppedVoice:
    """Stop one voice of a run: interrupt its running turn; it takes no other one. The other voices go on."""
    with context.store.read() as session:
        found = find_run(session, run_id).id
    log.info("api.stop_voice", run=found, voice=voice, by=asked.by)
    stopped = stop_voice(context.store, found, voice, asked.by, context.notifier.interrupt, STOP_SECONDS)
    response.status_code = HTTPStatus.OK if stopped.over else HTTPStatus.ACCEPTED
    turns = [InterruptedTurn(thread=thread, turn=turn) for thread, turn in stopped.interrupted]
    return StoppedVoice(run_id=found, voice=voice, interrupted=turns, over=stopped.over)
