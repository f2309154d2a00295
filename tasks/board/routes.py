"""Routes of boards, questions and scores."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from fastapi import APIRouter, Response

from chordesk.models.answers import Frozen
from chordesk.models.database.lookup import ACTS, by_prefix
from chordesk.models.errors import UsageError
from chordesk.models.questions import QuestionSource, QuestionState
from chordesk.models.tables.board import Episode, Question
from chordesk.models.tables.runs import Run, research_run
from chordesk.tasks.board.board_view import BoardView, board_view
from chordesk.tasks.board.episode.rounds import stop_voice
from chordesk.tasks.reading.scores import QuestionDetail, ScoreBoard, ScoreKind, kept_scores, question_detail
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.idempotency import WriteRoute, decided_once
from chordesk.tasks.web.schemas import (
    Id,
    IdFilter,
    InterruptedTurn,
    Limit,
    Offset,
    StopRequest,
    TextFilter,
    Ticker,
)
from chordesk.tasks.web.security import JsonRoute
from chordesk.tools.questions.stored_questions import list_questions


class StoppedVoice(Frozen):
    """A voice that takes no turn in a run any more. interrupted: its turns that were running, by thread and turn; over:
    whether all of its steps have ended."""

    run_id: str
    voice: str
    interrupted: list[InterruptedTurn]
    over: bool


log = structlog.get_logger(__name__)
router = APIRouter(tags=["board"], route_class=WriteRoute)

STOP_SECONDS = 3.0  # with healthy workers a voice's turn ends within one


@router.get("/runs/{run_id}/board")
def run_board(context: Context, run_id: Id) -> BoardView:
    """Show a board: signals, questions, forecasts with citations, voices, tally."""
    with context.store.read() as session:
        return board_view(session, by_prefix(session, Run, run_id))


@router.get("/runs/{run_id}/episode")
def run_episode(context: Context, run_id: Id) -> Episode:
    """Show a board's tally as markdown, and as JSON in `summary`."""
    with context.store.read() as session:
        run = by_prefix(session, Run, run_id)
        found = session.get(Episode, research_run(run))
    if found is None:
        raise UsageError(f"run {run.id} has no tally", remedy="an episode has one at its end")
    return found


_STOPPING: dict[int | str, dict[str, Any]] = {
    202: {"model": StoppedVoice, "description": "Its step is still held; it ends with its turn, or with its lease."}
}


@router.post("/runs/{run_id}/voices/{voice}/stop", responses=_STOPPING)
@decided_once
def stop_one_voice(context: Context, run_id: Id, voice: Ticker, asked: StopRequest, response: Response) -> StoppedVoice:
    """Stop one voice and interrupt its turn.

    The other voices go on.
    """
    with context.store.read() as session:
        found = by_prefix(session, Run, run_id, least=ACTS).id
    log.info("api.stop_voice", run=found, voice=voice, by=asked.by)
    stopped = stop_voice(context.store, found, voice, asked.by, context.notifier.interrupt, STOP_SECONDS)
    response.status_code = HTTPStatus.OK if stopped.over else HTTPStatus.ACCEPTED
    turns = [InterruptedTurn(thread=thread, turn=turn) for thread, turn in stopped.interrupted]
    return StoppedVoice(run_id=found, voice=voice, interrupted=turns, over=stopped.over)


questions_router = APIRouter(tags=["questions"], route_class=JsonRoute)


@questions_router.get("/questions")
def questions(
    context: Context,
    state: QuestionState | None = None,
    source: QuestionSource | None = None,
    about: IdFilter = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[Question]:
    """List questions: open ones by their closing, then the newest outcomes.

    about: a symbol.
    """
    with context.store.read() as session:
        subject = about.upper() if about else None
        rows = list_questions(session, state=state, source=source, subject=subject, limit=limit, offset=offset)
        return list(rows)


@questions_router.get("/questions/{question_id}")
def question(context: Context, question_id: Id) -> QuestionDetail:
    """Show a question: rule, times, outcome with its evidence, scores."""
    with context.store.read() as session:
        return question_detail(session, by_prefix(session, Question, question_id, lists="GET /questions lists them"))


scores_router = APIRouter(tags=["scores"], route_class=JsonRoute)


@scores_router.get("/scores")
def show(
    context: Context,
    kind: ScoreKind | None = None,
    name: TextFilter = None,
    account: TextFilter = None,
    ever: bool = False,
) -> ScoreBoard:
    """Show the scores of an account's voices, tools, lenses, roles and verdicts.

    By default of the desk's own account; of one kind or, with its name, of one source. Of the questions of a year
    before its newest run, or of all of them ever.
    """
    if name is not None and kind is None:
        raise UsageError("a name was given without its kind", remedy="give kind too, such as kind=voice")
    settings = context.settings
    return kept_scores(context.store, account or settings.account, settings.model_cutoffs, kind, name, ever=ever)
