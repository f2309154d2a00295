"""A run's events as server-sent events: first the stored ones, then live ones."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from models.database.store import Store
from models.events import event_log
from models.events.envelope import DESK
from tasks.events.sources import is_over
from tasks.views.run_view import find_run
from tasks.web.context import Context
from tasks.web.schemas import MOST_SEQUENCE, Id
from tasks.web.stream import MESSAGE, EventStream

router = APIRouter(tags=["events"])

Place = Annotated[int, Field(ge=0, le=MOST_SEQUENCE)]
Since = Annotated[Place, Query(description="events after this sequence")]
LastEventId = Annotated[
    Place | SkipJsonSchema[None], Header(alias="Last-Event-ID", description="the same as since, and takes precedence")
]
Deltas = Annotated[bool, Query(description="also a model's text while it is written; never stored, without an id")]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One event a message: its sequence as id, the envelope as JSON data.",
        "content": {EventStream.media_type: {"itemSchema": MESSAGE}},
    },
    204: {"description": "The run has ended with its orders and approvals; no event follows."},
    410: {"description": "Events after that sequence are no longer kept; `trimmed` is the last deleted one."},
}


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses=_RESPONSES)
async def events(
    context: Context, run_id: Id, since: Since = 0, last_event_id: LastEventId = None, deltas: Deltas = False
) -> Response:
    """Stream every event of a run after a sequence, without a gap or a repeat. The stream ends when the run has ended,
    none of its orders is open and no request of it waits for a person. The run `desk` has the events of no run, and
    never ends."""
    after = since if last_event_id is None else last_event_id
    found, last, over = await run_in_threadpool(_state, context.store, run_id)
    await context.feed.check(found, after)
    if over and after >= last:
        return Response(status_code=204)
    return EventStream(context.feed.follow(found, after, deltas=deltas))


def _state(store: Store, run_id: str) -> tuple[str, int, bool]:
    """Return the run's whole id, its last sequence, and whether it is over."""
    with store.read() as session:
        if run_id == DESK:
            return DESK, 0, False
        run = find_run(session, run_id)
        return run.id, event_log.head(session, run.id)[1], is_over(session, run.id)
