"""Routes of threads: the current one of each role, their turns, and their forks."""

from __future__ import annotations

import structlog
from fastapi import APIRouter
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound
from chordesk.models.states import StepState
from chordesk.models.tables.runs import Step
from chordesk.tasks.threads import ThreadRow, ThreadView, find_thread, registered, view
from chordesk.tasks.threads import threads as known
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.idempotency import WriteRoute
from chordesk.tasks.web.schemas import Id, InterruptedTurn, Limit, StopRequest, TextFilter

log = structlog.get_logger(__name__)
router = APIRouter(tags=["threads"], route_class=WriteRoute)


@router.get("/threads")
def threads(context: Context, role: TextFilter = None, limit: Limit = 50) -> list[ThreadRow]:
    """List the current threads of roles, the last used first, then those of the past."""
    records = registered(context.desk)
    with context.store.read() as session:
        return known(session, records, limit, role)


@router.get("/threads/{thread_id}")
def thread(context: Context, thread_id: Id) -> ThreadView:
    """Show a thread with its turns: role, run, time, tokens, outcome, and the first line of each prompt and answer. The
    turns' own routes have the whole text."""
    records = registered(context.desk)
    with context.store.read() as session:
        return view(session, records, context.desk.vault, find_thread(session, thread_id))


@router.post("/threads/{thread_id}/turns/{turn_id}/interrupt", tags=["turns"])
def interrupt(context: Context, thread_id: Id, turn_id: Id, asked: StopRequest) -> InterruptedTurn:
    """End one running turn. Its step is tried again as after any interruption; a stop ends the whole run."""
    log.info("api.interrupt", thread=thread_id, turn=turn_id, by=asked.by)
    if not _any_step_runs(context.store) or not context.notifier.interrupt(thread_id, turn_id):
        raise NotFound(f"no worker runs turn {turn_id!r} of thread {thread_id!r}", remedy="its events have both ids")
    return InterruptedTurn(thread=thread_id, turn=turn_id)


def _any_step_runs(store: Store) -> bool:
    """Return whether a worker holds any step. Without one there is no turn, and no worker to wait for."""
    running = select(Step.id).where(col(Step.state) == StepState.RUNNING.value).limit(1)
    with store.read() as session:
        return session.exec(running).first() is not None
