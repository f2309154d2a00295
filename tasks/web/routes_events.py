"""A run's events as server-sent events: first what is stored, then live."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from models import event_log
from models.events import DESK
from models.store import Store
from tasks.events.sources import is_over
from tasks.run_view import find_run
from tasks.web.schemas import MOST_SEQUENCE, Id
from tasks.web.site import Here
from tasks.web.stream import MESSAGE, EventStream

router = APIRouter(tags=["events"])

Place = Annotated[int, Field(ge=0, le=MOST_SEQUENCE)]
Since = Annotated[Place, Query(description="events after this sequence")]
LastEventId = Annotated[
    Place | SkipJsonSchema[None], Header(alias="Last-Event-ID", description="the same, and stronger")
]
Deltas = Annotated[bool, Query(description="also what a model says while it says it; never stored, without an id")]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One event a message: its sequence as id, the envelope as JSON data.",
        "content": {EventStream.media_type: {"itemSchema": MESSAGE}},
    },
    204: {"description": "Nothing follows: the run has ended, with its orders and approvals; a browser asks no more."},
    410: {"description": "Events after that sequence are kept no longer; `trimmed` says up to which."},
}


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses=_RESPONSES)
async def events(
    here: Here, run_id: Id, since: Since = 0, last_event_id: LastEventId = None, deltas: Deltas = False
) -> Response:
    """Every event of a run after a sequence, without a gap or a repeat; ends when the run has ended, none of its orders
    is open and nothing of it waits for a person. The run `desk` has what belongs to no run, and never ends."""
    after = since if last_event_id is None else last_event_id
    found, last, over = await run_in_threadpool(_state, here.store, run_id)
    await here.feed.check(found, after)
    if over and after >= last:
        return Response(status_code=204)
    return EventStream(here.feed.follow(found, after, deltas=deltas))


def _state(store: Store, run_id: str) -> tuple[str, int, bool]:
    """The run's whole id, its last sequence, and whether no more will come."""
    with store.read() as session:
        if run_id == DESK:
            return DESK, 0, False
        run = find_run(session, run_id)
        return run.id, event_log.head(session, run.id)[1], is_over(session, run.id)
