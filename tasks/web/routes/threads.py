"""Routes of threads: the current one of each role, their turns, and their forks."""

from __future__ import annotations

from fastapi import APIRouter

from tasks.threads.handling import registered
from tasks.threads.overview import ThreadRow, ThreadView, find_thread, view
from tasks.threads.overview import threads as known
from tasks.web.context import Context
from tasks.web.schemas import Id, Limit, TextFilter

router = APIRouter(tags=["threads"])


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
