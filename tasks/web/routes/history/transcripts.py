"""Routes of whole threads, and what a person does with one: fork it, ask in the fork, let its role start afresh."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import structlog
from fastapi import APIRouter

from chordesk.models.errors import CodexError, ServiceError
from chordesk.tasks.threads import ask, find_thread, fork, reset
from chordesk.tasks.views.history.transcript import ThreadTranscript, thread_transcript
from chordesk.tasks.web.context import Context, ServiceContext
from chordesk.tasks.web.idempotency import WriteRoute
from chordesk.tasks.web.schemas import (
    AskedTurn,
    AskRequest,
    ForkedThread,
    ForkRequest,
    Id,
    Limit,
    Offset,
    ResetThread,
    StopRequest,
)

log = structlog.get_logger(__name__)
router = APIRouter(tags=["threads"], route_class=WriteRoute)

# A turn may take minutes, and threads of the service's pool answer all other requests.
ASKED_AT_ONCE = 4
_places = threading.BoundedSemaphore(ASKED_AT_ONCE)


@router.get("/threads/{thread_id}/turns")
def thread_turns(context: Context, thread_id: Id, limit: Limit = 20, offset: Offset = 0) -> ThreadTranscript:
    """Show a thread's turns in full, the oldest first: prompt, answer, items, tool calls with arguments and answers,
    approvals and tokens."""
    with context.store.read() as session:
        found = find_thread(session, thread_id)
        return thread_transcript(session, context.desk.vault, found, limit, offset)


@router.post("/threads/{thread_id}/fork", status_code=HTTPStatus.CREATED)
def fork_thread(context: Context, thread_id: Id, asked: ForkRequest) -> ForkedThread:
    """Make a thread of its own with everything before a turn; the parent stays as it is."""
    found = _found(context, thread_id)
    log.info("api.fork", thread=found, before_turn=asked.before_turn, by=asked.by)
    with _one_of_few():
        return ForkedThread.of(fork(context.desk, found, asked.before_turn, asked.model))


@router.post("/threads/{thread_id}/ask")
def ask_fork(context: Context, thread_id: Id, asked: AskRequest) -> AskedTurn:
    """Run one more turn in a fork and return its answer; it makes no report, decision or order. Its events are the
    desk's own."""
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
    """Let a thread's role start a new one with its next turn; the history is kept."""
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
