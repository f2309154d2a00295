"""An event stream as text/event-stream, for one reader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

import structlog
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.types import Receive, Scope, Send

from chordesk.models.errors import DeskError
from chordesk.models.events import Envelope
from chordesk.tasks.web.problems import Problem, fault, problem_of

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
    """Return one event as a message. id_: its sequence by default; a delta has none, so that a reader resumes from the
    last stored event."""
    if one.sequence is None:
        return format_sse_event(data_str=one.model_dump_json())
    return format_sse_event(id=id_ or str(one.sequence), data_str=one.model_dump_json())


def place_frame(place: str) -> bytes:
    """Return a message without an event: the place from which a reader that gets nothing else can resume."""
    return format_sse_event(id=place, event="place", data_str=json.dumps({"place": place}))
