"""Events as server-sent events: first the stored ones, then live ones; of one run, or of all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

import structlog
from fastapi import APIRouter, Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from sqlmodel import Session
from starlette.types import Receive, Scope, Send

from chordesk.models import event_log
from chordesk.models.database.lookup import by_prefix
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.events import DESK, Domain, Envelope, EventType, KnownType
from chordesk.models.tables.runs import Run
from chordesk.tasks.events import feed
from chordesk.tasks.events.feed import DeskPlace, Placed, is_over
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.problems import Problem, fault, problem_of
from chordesk.tasks.web.schemas import MOST_SEQUENCE, Id

log = structlog.get_logger(__name__)

QUIET_SECONDS = 5.0  # after which a comment shows that the connection stands
AHEAD = 256  # events encoded before the reader takes them
_END = b""
Item = TypeVar("Item")
# One message, as OpenAPI describes those of a stream; an envelope's own description is beside it.
MESSAGE = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string"},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/Envelope"},
        },
    },
    "required": ["data"],
}


class EventStream(StreamingResponse, Generic[Item]):
    """A response of server-sent events. It ends with them, or as soon as the reader leaves, and cleans up in both
    cases. A slow reader delays only itself: no more events are read meanwhile."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncIterator[Item], framed: Callable[[Item], bytes], quiet_seconds: float = QUIET_SECONDS
    ) -> None:
        """framed: returns a message; empty for an item that has none."""
        self._events, self._framed, self._quiet_seconds = events, framed, quiet_seconds
        self._ready: asyncio.Queue[bytes] = asyncio.Queue(AHEAD)
        # nginx would keep events back until its buffer is full.
        super().__init__(self._chunks(), headers={"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        filling = asyncio.create_task(self._fill())
        try:
            await super().__call__(scope, receive, send)
        finally:
            filling.cancel()

    async def _fill(self) -> None:
        try:
            async with aclosing(self._events) as events:  # type: ignore[type-var]
                async for one in events:
                    if message := self._framed(one):
                        await self._ready.put(message)
        except DeskError as error:
            await self._ready.put(_problem_message(problem_of(error)))
        except Exception as error:
            log.exception("api.events")
            await self._ready.put(_problem_message(fault(error)))
        await self._ready.put(_END)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self._quiet_seconds):
                    chunk = [await self._ready.get()]
            except TimeoutError:
                yield KEEPALIVE_COMMENT
                continue
            while not self._ready.empty():
                chunk.append(self._ready.get_nowait())
            yield b"".join(chunk)
            if chunk[-1] is _END:
                return


def _problem_message(why: Problem) -> bytes:
    """Return a problem as a message: the status is already sent; the reader gets it with its next request."""
    return format_sse_event(event="problem", data_str=why.model_dump_json(exclude_none=True))


def frame(one: Envelope, id_: str | None = None) -> bytes:
    """id_: its sequence by default; a delta has none, so that a reader resumes from the last stored event."""
    if one.sequence is None:
        return format_sse_event(data_str=one.model_dump_json())
    return format_sse_event(id=id_ or str(one.sequence), data_str=one.model_dump_json())


def place_frame(place: str) -> bytes:
    """Return a message without an event: the place from which a reader that gets nothing else can resume."""
    return format_sse_event(id=place, event="place", data_str=json.dumps({"place": place}))


# What a model wrote, or a tool answered: more than a third of all bytes.
_BODIES: Mapping[EventType, str] = {EventType.ITEM_COMPLETED: "text", EventType.TOOL_COMPLETED: "answer"}


@dataclass(frozen=True, slots=True)
class EventFilter:
    kinds: Collection[EventType | Domain] = ()  # types, or whole domains
    runs: Collection[str] = ()  # ids; without any, all pass
    bodies: bool = True  # False leaves out the text of an item and the answer of a tool

    def passed(self, one: Envelope) -> Envelope | None:
        """Return an event as its reader gets it; None for one that is filtered out."""
        if self.runs and one.run_id not in self.runs:
            return None
        if self.kinds and one.type not in self.kinds and one.domain not in self.kinds:
            return None
        body = _BODIES.get(one.type)
        if self.bodies or body is None or body not in one.payload:
            return one
        return one.model_copy(update={"payload": {name: one.payload[name] for name in one.payload if name != body}})


router = APIRouter(tags=["events"])

Sequence = Annotated[int, Field(ge=0, le=MOST_SEQUENCE)]
Since = Annotated[Sequence, Query(description="events after this sequence")]
LastEventId = Annotated[
    Sequence | SkipJsonSchema[None],
    Header(alias="Last-Event-ID", description="the same as since, and takes precedence"),
]
Place = Annotated[str, Field(max_length=feed.LONGEST, pattern=feed.FORM)]
After = Annotated[
    Place | SkipJsonSchema[None],
    Query(description="events after this id of the stream; `0`: all that are kept; left out: from now on"),
]
LastPlace = Annotated[
    Place | SkipJsonSchema[None], Header(alias="Last-Event-ID", description="the same as after, and takes precedence")
]
Deltas = Annotated[bool, Query(description="also a model's text while it is written; never stored, without an id")]
Types = Annotated[list[KnownType], Query(alias="type", description="types of events, or whole domains")]
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
    """Stream the events of all runs after a place.

    There is no gap and no repeat; each run's events are in order. The stream never ends. A filtered stream's places are
    good for any other filter.
    """
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
    return DESK if name == DESK else by_prefix(session, Run, name).id


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
    """Stream a run's events after a sequence.

    There is no gap and no repeat. The stream ends when the run has ended, none of its orders is open and no request of
    it waits for a person. The run `desk` has the events without a run, and never ends.
    """
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
    with store.read() as session:
        found = _run_id(session, run_id)
        if found == DESK:
            return DESK, 0, False
        return found, event_log.head(session, found)[1], is_over(session, found)
