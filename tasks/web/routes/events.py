"""Events as server-sent events: first the stored ones, then live ones; of one run, or of all."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from sqlmodel import Session

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import DESK, Domain, Envelope, EventType
from chordesk.tasks.events import sources
from chordesk.tasks.events.feed import Placed
from chordesk.tasks.events.sources import DeskPlace, is_over
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.event_filter import EventFilter
from chordesk.tasks.web.schemas import MOST_SEQUENCE, Id
from chordesk.tasks.web.stream import MESSAGE, EventStream, frame, place_frame

router = APIRouter(tags=["events"])

Sequence = Annotated[int, Field(ge=0, le=MOST_SEQUENCE)]
Since = Annotated[Sequence, Query(description="events after this sequence")]
LastEventId = Annotated[
    Sequence | SkipJsonSchema[None],
    Header(alias="Last-Event-ID", description="the same as since, and takes precedence"),
]
Place = Annotated[str, Field(max_length=sources.LONGEST, pattern=sources.FORM)]
After = Annotated[
    Place | SkipJsonSchema[None],
    Query(description="events after this id of the stream; `0`: all that are kept; left out: from now on"),
]
LastPlace = Annotated[
    Place | SkipJsonSchema[None], Header(alias="Last-Event-ID", description="the same as after, and takes precedence")
]
Deltas = Annotated[bool, Query(description="also a model's text while it is written; never stored, without an id")]
Types = Annotated[list[EventType | Domain], Query(alias="type", description="types of events, or whole domains")]
Runs = Annotated[
    list[Annotated[str, Field(max_length=64, pattern=r"^[0-9A-Za-z_.-]+$")]],
    Query(
        alias="run", max_length=50, description="runs, each by its id or the only beginning of one; `desk` is no run"
    ),
]
Bodies = Annotated[bool, Query(description="false leaves out the texts of items and the answers of tools")]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One event a message: its sequence as id, the envelope as JSON data.",
        "content": {EventStream.media_type: {"itemSchema": MESSAGE}},
    },
    204: {"description": "The run has ended with its orders and approvals; no event follows."},
    410: {"description": "Events after that sequence are no longer kept; `trimmed` is the last deleted one."},
}
_OF_ALL: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One event a message: the place after it as id, the envelope as JSON data. The first message is "
        "of the type `place` and has no event.",
        "content": {EventStream.media_type: {"itemSchema": MESSAGE}},
    },
    410: {"description": "Events after that place are no longer kept: read what there is, and go on from now."},
}


@router.get("/events", response_class=StreamingResponse, responses=_OF_ALL)
async def all_events(
    context: Context,
    after: After = None,
    last_event_id: LastPlace = None,
    type_: Types = [],  # noqa: B006
    run: Runs = [],  # noqa: B006
    bodies: Bodies = True,
    deltas: Deltas = False,
) -> Response:
    """Stream the events of all runs, and of none, after a place, without a gap or a repeat; each run's are in order.
    The stream never ends. A filtered stream's places are good for any other filter."""
    text = after if last_event_id is None else last_event_id
    place = DeskPlace.parse(text) if text is not None else None
    runs = await run_in_threadpool(_found, context.store, run)
    await context.feed.check_place(place)
    wanted = EventFilter(frozenset(type_), runs, bodies)
    return EventStream(context.feed.follow_all(place, deltas=deltas), partial(_placed, wanted))


def _found(store: Store, names: list[str]) -> frozenset[str]:
    if not names:
        return frozenset()
    with store.read() as session:
        return frozenset(_run_id(session, name) for name in names)


def _run_id(session: Session, name: str) -> str:
    return DESK if name == DESK else find_run(session, name).id


def _placed(wanted: EventFilter, one: Placed) -> bytes:
    if one.event is None:
        return place_frame(one.place)
    found = wanted.passed(one.event)
    return frame(found, one.place) if found is not None else b""


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses=_RESPONSES)
async def events(
    context: Context,
    run_id: Id,
    since: Since = 0,
    last_event_id: LastEventId = None,
    type_: Types = [],  # noqa: B006
    bodies: Bodies = True,
    deltas: Deltas = False,
) -> Response:
    """Stream every event of a run after a sequence, without a gap or a repeat. The stream ends when the run has ended,
    none of its orders is open and no request of it waits for a person. The run `desk` has the events of no run, and
    never ends."""
    after = since if last_event_id is None else last_event_id
    found, last, over = await run_in_threadpool(_state, context.store, run_id)
    await context.feed.check(found, after)
    if over and after >= last:
        return Response(status_code=204)
    wanted = EventFilter(frozenset(type_), bodies=bodies)
    return EventStream(context.feed.follow(found, after, deltas=deltas), partial(_framed, wanted))


def _framed(wanted: EventFilter, one: Envelope) -> bytes:
    found = wanted.passed(one)
    return frame(found) if found is not None else b""


def _state(store: Store, run_id: str) -> tuple[str, int, bool]:
    """Return the run's whole id, its last sequence, and whether it is over."""
    with store.read() as session:
        found = _run_id(session, run_id)
        if found == DESK:
            return DESK, 0, False
        return found, event_log.head(session, found)[1], is_over(session, found)
