"""Threads: which one each role goes on in, what was said in one, and what it was forked from."""

from __future__ import annotations

from fastapi import APIRouter

from tasks.threads.handling import registered
from tasks.threads.overview import ThreadRow, ThreadView, find_thread, view
from tasks.threads.overview import threads as known
from tasks.web.schemas import Id, Limit, TextFilter
from tasks.web.site import Here

router = APIRouter(tags=["threads"])


@router.get("/threads")
def threads(here: Here, role: TextFilter = None, limit: Limit = 50) -> list[ThreadRow]:
    """Threads that roles go on in, the last used first, then those of the past."""
    records = registered(here.desk)
    with here.store.read() as session:
        return known(session, records, limit, role)


@router.get("/threads/{thread_id}")
def thread(here: Here, thread_id: Id) -> ThreadView:
    """A thread with its turns: role, run, time, tokens, outcome, and the first line of what was said. The turns' own
    addresses have all of it."""
    records = registered(here.desk)
    with here.store.read() as session:
        return view(session, records, here.desk.vault, find_thread(session, thread_id))
