"""One program's connection: a token first, then requests, each answered under its id, and events meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from fastapi.concurrency import run_in_threadpool
from fastapi.encoders import jsonable_encoder

from chordesk.models.errors import UsageError
from chordesk.models.events import DESK, Envelope
from chordesk.tasks.events.feed import Placed
from chordesk.tasks.events.sources import DeskPlace
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.web.context import ServiceContext
from chordesk.tasks.web.event_filter import EventFilter
from chordesk.tasks.web.problems import Problem, problem, problem_for
from chordesk.tasks.web.programs.actions import Action
from chordesk.tasks.web.programs.messages import Asked, Hello, Subscribe, Unsubscribe, parse
from chordesk.tasks.web.programs.once import answered

log = structlog.get_logger(__name__)
router = APIRouter()

HELLO_SECONDS = 10.0
SUBSCRIPTIONS = 20
WORKING = 8  # requests of a connection that are being worked on
AHEAD = 256  # messages made before the program takes them: a slow one delays only itself
_POLICY, _TOO_MANY = 1008, 1013
_HELLO = "send {\"id\": ..., \"do\": \"hello\", \"token\": ...} first"  # fmt: skip


class ProgramToken:
    """The service's token, which a program's first message shows."""

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()

    def is_(self, given: str) -> bool:
        return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), self._digest)


@router.websocket("/ws")
async def programs(socket: WebSocket) -> None:
    """Serve one program. The guard has checked where the handshake came from; the token is in the first message."""
    await socket.accept()
    connection = ProgramConnection(socket, socket.app.state.context, socket.app.state.program_token)
    try:
        await connection.run()
    except WebSocketDisconnect:
        pass
    finally:
        await connection.close()


class ProgramConnection:
    """The requests and subscriptions of one program."""

    def __init__(self, socket: WebSocket, context: ServiceContext, token: ProgramToken) -> None:
        self._socket, self._context, self._token = socket, context, token
        self._outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue(AHEAD)
        self._following: dict[str, asyncio.Task[None]] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._sending: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Answer until the program leaves. Raises WebSocketDisconnect."""
        if not await self._welcomed():
            return
        self._sending = asyncio.create_task(self._send())
        while True:
            id_, asked = parse(await self._text())
            if isinstance(asked, str):
                wrong = problem(HTTPStatus.UNPROCESSABLE_ENTITY, "wrong_request", asked, "see docs/reference/http-api")
                await self._put(id_, problem=wrong)
            else:
                await self._take(asked)

    async def close(self) -> None:
        """End all that goes on for the program."""
        tasks = [*self._following.values(), *self._working, *([self._sending] if self._sending else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _text(self) -> str | None:
        """Return the next message, None for bytes. Raises WebSocketDisconnect."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text: str | None = message.get("text")
        return text

    async def _welcomed(self) -> bool:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                id_, asked = parse(await self._text())
        except TimeoutError:
            await self._refuse(None, "no message came in time")
            return False
        if not isinstance(asked, Hello):
            await self._refuse(id_, "the first message shows the token")
            return False
        if not self._token.is_(asked.token):
            await self._refuse(id_, "the token is wrong")
            return False
        await self._socket.send_json({"id": asked.id, "result": {"hello": True}})
        return True

    async def _refuse(self, id_: str | None, why: str) -> None:
        wrong = problem(HTTPStatus.UNAUTHORIZED, "no_token", why, _HELLO)
        await self._socket.send_json({"id": id_, "problem": wrong.model_dump(exclude_none=True)})
        await self._socket.close(_POLICY)

    async def _send(self) -> None:
        while True:
            await self._socket.send_text(json.dumps(await self._outgoing.get(), separators=(",", ":")))

    async def _put(self, id_: str | None, *, result: Any = None, problem: Problem | None = None) -> None:
        message: dict[str, Any] = {"id": id_}
        if problem is not None:
            message["problem"] = problem.model_dump(exclude_none=True)
        else:
            message["result"] = jsonable_encoder(result)
        await self._outgoing.put(message)

    async def _take(self, asked: Asked) -> None:
        try:
            match asked:
                case Hello():
                    raise UsageError("the token was shown already", remedy="send requests")
                case Subscribe():
                    await self._subscribe(asked)
                case Unsubscribe():
                    await self._unsubscribe(asked)
                case _:
                    self._begin(asked)
        except Exception as error:
            await self._put(asked.id, problem=_problem_of(error))

    def _begin(self, asked: Action) -> None:
        if len(self._working) >= WORKING:
            raise UsageError(f"{WORKING} requests are being worked on", remedy="wait for an answer")
        task = asyncio.create_task(self._act(asked))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _act(self, asked: Action) -> None:
        try:
            answer = await answered(self._context, self._socket.app.state.kept, asked)
        except Exception as error:
            await self._put(asked.id, problem=_problem_of(error))
        else:
            await self._put(asked.id, **answer)

    async def _subscribe(self, asked: Subscribe) -> None:
        """Answer with the run's whole id and begin to send its events. Raises UsageError, NotFound, HistoryTrimmed."""
        if asked.id in self._following:
            raise UsageError(f"there is a subscription {asked.id!r} already", remedy="give each request its own id")
        if len(self._following) >= SUBSCRIPTIONS:
            raise UsageError(f"there are {SUBSCRIPTIONS} subscriptions", remedy="end one first, or follow all runs")
        wanted = EventFilter(frozenset(asked.types), bodies=asked.bodies)
        feed = self._context.feed
        if asked.run is None:
            place = DeskPlace.parse(asked.after) if asked.after is not None else None
            await feed.check_place(place)
            events = feed.follow_all(place, deltas=asked.deltas)
            result: dict[str, Any] = {"run": None}
        else:
            run_id = await run_in_threadpool(self._run_id, asked.run)
            await feed.check(run_id, asked.since)
            events = _placed(feed.follow(run_id, asked.since, deltas=asked.deltas))
            result = {"run": run_id}
        await self._put(asked.id, result=result)
        task = asyncio.create_task(self._follow(asked.id, events, wanted))
        self._following[asked.id] = task

    def _run_id(self, name: str) -> str:
        with self._context.store.read() as session:
            return DESK if name == DESK else find_run(session, name).id

    async def _follow(self, id_: str, events: AsyncGenerator[Placed], wanted: EventFilter) -> None:
        ended: dict[str, Any] = {"subscription": id_, "ended": True}
        try:
            async with aclosing(events):
                async for one in events:
                    if (message := _event_message(id_, one, wanted)) is not None:
                        await self._outgoing.put(message)
        except Exception as error:
            ended["problem"] = _problem_of(error).model_dump(exclude_none=True)
        self._following.pop(id_, None)
        await self._outgoing.put(ended)

    async def _unsubscribe(self, asked: Unsubscribe) -> None:
        task = self._following.pop(asked.subscription, None)
        if task is None:
            raise UsageError(f"there is no subscription {asked.subscription!r}", remedy="it may have ended")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._put(asked.id, result={"unsubscribed": asked.subscription})


def _problem_of(error: Exception) -> Problem:
    found = problem_for(error)
    if found.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("api.program", exc_info=error)
    return found


async def _placed(events: AsyncGenerator[Envelope]) -> AsyncGenerator[Placed]:
    """Yield a run's events without places: their sequences are enough."""
    async with aclosing(events):
        async for one in events:
            yield Placed(one, "")


def _event_message(id_: str, one: Placed, wanted: EventFilter) -> dict[str, Any] | None:
    """Return the message of an event; None for one that is filtered out."""
    place = {"place": one.place} if one.place else {}
    if one.event is None:
        return {"subscription": id_, **place}
    found = wanted.passed(one.event)
    if found is None:
        return None
    return {"subscription": id_, "event": found.model_dump(mode="json"), **(place if found.sequence else {})}
