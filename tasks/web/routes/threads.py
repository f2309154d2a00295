"""Routes of threads: the current one of each role, whole transcripts, forks, and questions in a fork."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import structlog
from fastapi import APIRouter
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import CodexError, NotFound, ServiceError
from chordesk.models.states import StepState
from chordesk.models.tables.runs import Step
from chordesk.tasks.reading.thread_history import (
    ThreadDetail,
    ThreadRow,
    ThreadTranscript,
    find_thread,
    thread_detail,
    thread_transcript,
)
from chordesk.tasks.reading.thread_history import threads as known
from chordesk.tasks.thread_actions import Forked, ask, fork, registered, reset
from chordesk.tasks.web.context import Context, ServiceContext
from chordesk.tasks.web.idempotency import WriteRoute
from chordesk.tasks.web.schemas import (
    AskedTurn,
    AskRequest,
    ForkRequest,
    Id,
    InterruptedTurn,
    Limit,
    Offset,
    ResetThread,
    StopRequest,
    TextFilter,
)

log = structlog.get_logger(__name__)
router = APIRouter(tags=["threads"], route_class=WriteRoute)


@router.get("/threads")
def threads(context: Context, role: TextFilter = None, limit: Limit = 50) -> list[ThreadRow]:
    """List the current threads of roles, the last used first, then past ones."""
    records = registered(context.desk)
    with context.store.read() as session:
        return known(session, records, limit, role)


@router.get("/threads/{thread_id}")
def thread(context: Context, thread_id: Id) -> ThreadDetail:
    """Show a thread with a line for each turn.

    A line has role, run, time, tokens, outcome, and the first line of prompt and answer. The turns' own routes have the
    whole text.
    """
    records = registered(context.desk)
    with context.store.read() as session:
        return thread_detail(session, records, context.desk.vault, find_thread(session, thread_id))


@router.post("/threads/{thread_id}/turns/{turn_id}/interrupt", tags=["turns"])
def interrupt(context: Context, thread_id: Id, turn_id: Id, asked: StopRequest) -> InterruptedTurn:
    """End one running turn; its step is tried again.

    Stopping the run ends all of it.
    """
    log.info("api.interrupt", thread=thread_id, turn=turn_id, by=asked.by)
    if not _any_step_runs(context.store) or not context.notifier.interrupt(thread_id, turn_id):
        raise NotFound(f"no worker runs turn {turn_id!r} of thread {thread_id!r}", remedy="its events have both ids")
    return InterruptedTurn(thread=thread_id, turn=turn_id)


def _any_step_runs(store: Store) -> bool:
    """Return whether a worker holds any step. Without one there is no turn, and no worker to wait for."""
    running = select(Step.id).where(col(Step.state) == StepState.RUNNING.value).limit(1)
    with store.read() as session:
        return session.exec(running).first() is not None


# A turn may take minutes, and threads of the service's pool answer all other requests.
ASKED_AT_ONCE = 4
_places = threading.BoundedSemaphore(ASKED_AT_ONCE)


@router.get("/threads/{thread_id}/turns")
def thread_turns(context: Context, thread_id: Id, limit: Limit = 20, offset: Offset = 0) -> ThreadTranscript:
    """Show a thread's turns in full, the oldest first.

    A turn has prompt, answer, items, tool calls with arguments and answers, approvals and tokens.
    """
    with context.store.read() as session:
        found = find_thread(session, thread_id)
        return thread_transcript(session, context.desk.vault, found, limit, offset)


@router.post("/threads/{thread_id}/fork", status_code=HTTPStatus.CREATED)
def fork_thread(context: Context, thread_id: Id, asked: ForkRequest) -> Forked:
    """Fork a thread before a turn; the parent stays as it is."""
    found = _found(context, thread_id)
    log.info("api.fork", thread=found, before_turn=asked.before_turn, by=asked.by)
    with _one_of_few():
        return fork(context.desk, found, asked.before_turn, asked.model)


@router.post("/threads/{thread_id}/ask")
def ask_fork(context: Context, thread_id: Id, asked: AskRequest) -> AskedTurn:
    """Run one turn in a fork and return its answer; it leads to no report or order.

    Its events are the desk's own.
    """
    context.require_agreement()
    found = _found(context, thread_id)
    log.info("api.ask", thread=found, by=asked.by)
    with _one_of_few():
        result = ask(context.desk, found, asked.text)
    if result.failure is not None:
        raise CodexError(f"the turn {result.status}: {result.failure.kind}: {result.failure.message}")
    return AskedTurn.of(result, tokens=result.usage.total_tokens)


@router.post("/threads/{thread_id}/reset")
def reset_thread(context: Context, thread_id: Id, asked: StopRequest) -> ResetThread:
    """Let a role start a new thread with its next turn; the history is kept."""
    found = _found(context, thread_id)
    log.info("api.reset", thread=found, by=asked.by)
    one = reset(context.desk, found)
    return ResetThread(thread_id=found, role=one.role, subject=one.subject)


def _found(context: ServiceContext, part: str) -> str:
    with context.store.read() as session:
        return find_thread(session, part)


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Raises ServiceError when as many as the service takes at once are at it."""
    if not _places.acquire(blocking=False):
        raise ServiceError(f"{ASKED_AT_ONCE} forks and questions are being worked on", remedy="try again")
    try:
        yield
    finally:
        _places.release()
