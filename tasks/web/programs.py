"""The WebSocket for programs: subscriptions to events, and what a program may do, over one connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import unquote

import structlog
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from fastapi.concurrency import run_in_threadpool
from fastapi.encoders import jsonable_encoder
from pydantic import Discriminator, Field, StringConstraints, Tag, TypeAdapter, ValidationError

from chordesk.models.answers import Frozen
from chordesk.models.database.lookup import by_prefix
from chordesk.models.errors import DatabaseDown, UsageError
from chordesk.models.events import DESK, Envelope, KnownType
from chordesk.models.tables.runs import Run
from chordesk.tasks.events import feed
from chordesk.tasks.events.feed import DeskPlace, Placed
from chordesk.tasks.named_tokens import FRESH_SECONDS, Tokens
from chordesk.tasks.web.connection_limits import HELLO_SECONDS, MOST_DEPTH, is_too_deep, let_in
from chordesk.tasks.web.context import ServiceContext
from chordesk.tasks.web.idempotency import KEY_RULE
from chordesk.tasks.web.problems import Problem, problem, problem_for
from chordesk.tasks.web.routes.events import EventFilter
from chordesk.tasks.web.schemas import MOST_SEQUENCE

_Key = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z_.:-]+$")]
_Place = Annotated[str, StringConstraints(max_length=feed.LONGEST, pattern=feed.FORM)]


class _Request(Frozen):
    id: _Key


class Hello(_Request):
    """The first message."""

    do: Literal["hello"]
    token: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class Subscribe(_Request):
    """Events of a run after a sequence, then live ones; without a run those of all, after a place or from now on. The
    request's id names the subscription."""

    do: Literal["subscribe"]
    run: _Key | None = None
    since: int = Field(default=0, ge=0, le=MOST_SEQUENCE)
    after: _Place | None = None
    types: list[KnownType] = Field(default_factory=list, max_length=50)
    bodies: bool = True
    deltas: bool = False


class Unsubscribe(_Request):
    do: Literal["unsubscribe"]
    subscription: _Key


class Call(_Request):
    """A request to one of the service's routes, such as `POST /runs/ID/stop`, answered as over HTTP. key: a new one for
    each intention: the same request with it, over another connection too, acts once and has the same answer for a
    day."""

    do: Annotated[str, StringConstraints(max_length=500, pattern=r"^(?:POST|PUT|PATCH|DELETE) /[!-~]*$")]
    body: dict[str, Any] = Field(default_factory=dict)
    key: Annotated[str, StringConstraints(pattern=KEY_RULE)] | None = None


def _kind(body: Any) -> str:
    asked = body.get("do") if isinstance(body, dict) else None
    return asked if asked in ("hello", "subscribe", "unsubscribe") else "call"


Asked = Hello | Subscribe | Unsubscribe | Call
_ASKED: TypeAdapter[Asked] = TypeAdapter(
    Annotated[
        Annotated[Hello, Tag("hello")]
        | Annotated[Subscribe, Tag("subscribe")]
        | Annotated[Unsubscribe, Tag("unsubscribe")]
        | Annotated[Call, Tag("call")],
        Discriminator(_kind),
    ]
)
_LONGEST_VALUE = 80


def parse(text: str | None) -> tuple[str | None, Asked | str]:
    """Return the id of a message, as far as it has one, and the request, or what is wrong with it."""
    if is_too_deep(text or ""):
        return None, f"a message's JSON is nested at most {MOST_DEPTH} deep"
    try:
        body: Any = json.loads(text or "")
    except ValueError:
        return None, "a message is one JSON object, as text"
    given = body.get("id") if isinstance(body, dict) else None
    id_ = given if isinstance(given, str) and len(given) <= _LONGEST_VALUE and given.isprintable() else None
    try:
        return id_, _ASKED.validate_python(body)
    except ValidationError as error:
        return id_, "; ".join(_wrong(item) for item in error.errors())


def _wrong(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"])
    given = item.get("input")
    # A token never shows.
    shown = f"={given!r:.{_LONGEST_VALUE}}" if isinstance(given, (int, str)) and "token" not in item["loc"] else ""
    return f"{where}{shown}: {item['msg']}"


# A program that leaves takes its connection along, and not the answer that is being made: the key promises to have it.
_ACTING: set[asyncio.Task[dict[str, Any]]] = set()


async def answered(socket: WebSocket, token: str, asked: Call) -> dict[str, Any]:
    acting = asyncio.create_task(_called(socket, token, asked))
    _ACTING.add(acting)
    acting.add_done_callback(_over)
    return await asyncio.shield(acting)


def _over(acting: asyncio.Task[dict[str, Any]]) -> None:
    _ACTING.discard(acting)
    if not acting.cancelled():
        acting.exception()  # it is the kept answer; its program may have left


async def _called(socket: WebSocket, token: str, asked: Call) -> dict[str, Any]:
    method, _, target = asked.do.partition(" ")
    path, _, query = target.partition("?")
    body = json.dumps(asked.body).encode()
    given = {
        "authorization": f"Bearer {token}", "content-type": "application/json", "content-length": str(len(body)),
        "idempotency-key": asked.key,
    }  # fmt: skip
    headers = [(b"host", socket.headers["host"].encode())]
    headers += [(name.encode(), value.encode()) for name, value in given.items() if value is not None]
    scope = {
        **{name: socket.scope.get(name) for name in ("asgi", "client", "server", "root_path")},
        "type": "http", "http_version": "1.1", "scheme": "http", "method": method, "path": unquote(path),
        "raw_path": path.encode(), "query_string": query.encode(), "headers": headers,
    }  # fmt: skip
    status, parts = HTTPStatus.INTERNAL_SERVER_ERROR.value, list[bytes]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    await socket.app(scope, receive, send)
    answer = b"".join(parts)
    if status >= HTTPStatus.BAD_REQUEST:
        return {"problem": Problem.model_validate_json(answer)}
    return {"result": json.loads(answer) if answer else None}


log = structlog.get_logger(__name__)
router = APIRouter()

SUBSCRIPTIONS = 20
WORKING = 8  # requests of a connection that are being worked on
AHEAD = 256  # messages made before the program takes them: a slow one delays only itself
_POLICY, _TOO_MANY = 1008, 1013
_HELLO = "send {\"id\": ..., \"do\": \"hello\", \"token\": ...} first"  # fmt: skip


@router.websocket("/ws")
async def programs(socket: WebSocket) -> None:
    """Serve one program. The guard has checked where the handshake came from; the token is in the first message."""
    await socket.accept()
    connection = ProgramConnection(socket, socket.app.state.context, socket.app.state.tokens)
    try:
        await connection.run()
    except WebSocketDisconnect:
        pass
    finally:
        await connection.close()


class ProgramConnection:
    """The requests and subscriptions of one program."""

    def __init__(self, socket: WebSocket, context: ServiceContext, tokens: Tokens) -> None:
        self._socket, self._context, self._tokens = socket, context, tokens
        self._outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue(AHEAD)
        self._following: dict[str, asyncio.Task[None]] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._own: list[asyncio.Task[None]] = []
        self._shown = ""  # the token, once it was shown

    async def run(self) -> None:
        if not await self._welcomed():
            return
        self._own = [asyncio.create_task(self._send()), asyncio.create_task(self._end_with_token())]
        while True:
            id_, asked = parse(await self._text())
            if isinstance(asked, str):
                wrong = problem(HTTPStatus.UNPROCESSABLE_ENTITY, "wrong_request", asked, "see docs/reference/http-api")
                await self._put(id_, problem=wrong)
            else:
                await self._take(asked)

    async def close(self) -> None:
        tasks = [*self._following.values(), *self._working, *self._own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _text(self) -> str | None:
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
        try:
            known = await self._tokens.find(asked.token)
        except DatabaseDown as error:
            await self._refuse(id_, str(error.args[0]))
            return False
        if known is None:
            await self._refuse(id_, "the token is wrong")
            return False
        self._shown = asked.token
        let_in(self._socket.scope)
        await self._socket.send_json({"id": asked.id, "result": {"hello": True}})
        return True

    async def _refuse(self, id_: str | None, why: str) -> None:
        wrong = problem(HTTPStatus.UNAUTHORIZED, "no_token", why, _HELLO)
        await self._socket.send_json({"id": id_, "problem": wrong.model_dump(exclude_none=True)})
        await self._socket.close(_POLICY)

    async def _end_with_token(self) -> None:
        """Close the connection soon after its token was revoked."""
        while True:
            await asyncio.sleep(FRESH_SECONDS / 2)
            with suppress(DatabaseDown):
                if await self._tokens.find(self._shown) is None:
                    break
        self._own[0].cancel()
        await self._refuse(None, "the token was revoked")

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
                case Call():
                    self._begin(asked)
        except Exception as error:
            await self._put(asked.id, problem=_problem_of(error))

    def _begin(self, asked: Call) -> None:
        if len(self._working) >= WORKING:
            raise UsageError(f"{WORKING} requests are being worked on", remedy="wait for an answer")
        task = asyncio.create_task(self._act(asked))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _act(self, asked: Call) -> None:
        try:
            answer = await answered(self._socket, self._shown, asked)
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
            return DESK if name == DESK else by_prefix(session, Run, name).id

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
    place = {"place": one.place} if one.place else {}
    if one.event is None:
        return {"subscription": id_, **place}
    found = wanted.passed(one.event)
    if found is None:
        return None
    return {"subscription": id_, "event": found.model_dump(mode="json"), **(place if found.sequence else {})}
