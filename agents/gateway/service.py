"""The gateway: a service on loopback that the app-servers of one process send their model calls to.

It sees all that the provider sends, and reports to the liveness of the turn that asked: signs of life which the
app-server does not pass on. A server of chat completions is put to and read back (`chat`), an endpoint of the Responses
API gets the calls as they are (`passing`). It answers the turns that run here and nobody else: it has the provider's
key.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
import structlog
from aiohttp import web
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

from chordesk.agents.calls.call_reader import MadeCall, OfferedTools
from chordesk.agents.calls.call_texts import calls_in
from chordesk.agents.gateway import server_requests
from chordesk.agents.gateway.chat import ChatCalls, Facts, completed, event, failed, message
from chordesk.agents.gateway.server_requests import Problem, Server, proxy_of, without_key
from chordesk.agents.gateway.stream import Body, beginning, body_of, sendable
from chordesk.agents.providers.liveness import Liveness
from chordesk.agents.providers.provider_limits import NO_CREDIT, RATE_LIMITED, USAGE_LIMIT
from chordesk.models.urls import masked

# Model calls of the app-server passed on to a Responses endpoint as they are, and its answers passed back as they
# are.
#
# Only the key is put in, which the app-server never gets, and the events are looked at for signs of life. What is not
# passed back as it is: an answer that no model gave, errors that would name this service in place of the endpoint,
# and an answer that is longer than it may be.

Send = Callable[[bytes], Awaitable[None]]
Begin = Callable[[int, Mapping[str, str]], Awaitable[None]]

# Headers of one connection, those that are ours to set, and those that no longer hold for a body that was unpacked.
_OURS = frozenset({
    "host", "authorization", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "content-length", "accept-encoding", "expect",
})  # fmt: skip
_UNPACKED = _OURS | {"content-encoding"}
STREAM = "text/event-stream"
STREAM_HEADERS = {"content-type": STREAM, "cache-control": "no-cache"}
BODY_BYTES = 8 * 1024 * 1024  # of an answer that is not a stream
# Of these an endpoint's own error would be told with the address of this service. The time of a limit, which the
# app-server keeps to itself, is told too.
_TOLD = frozenset({401, 403, 404, 405, 413})
_TOLD_KINDS = frozenset({"context_window", USAGE_LIMIT, NO_CREDIT})
LONG_SECONDS = 30.0  # of a rate limit in a stream: the app-server waits for a shorter one itself
_PLAN_HEADERS = "x-codex-"  # the windows of a plan, which the app-server passes on
_KIND = re.compile(rb'\s*event: ?([\w.]+)|.*?"type" ?: ?"([\w.]+)"', re.DOTALL)
_USAGE = re.compile(rb'"usage" ?: ?\{')
_DELTA = re.compile(rb'"delta" ?: ?("(?:[^"\\]|\\.)*")')


class PassedCalls:
    """The calls to one endpoint. session: an aiohttp session of the gateway's loop."""

    def __init__(self, url: str, key: str | None, session: aiohttp.ClientSession) -> None:
        self._url, self._name, self._key, self._session = url.rstrip("/"), masked(url), key, session

    async def answer(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        liveness: Liveness,
        begin: Begin,
        send: Send,
    ) -> None:
        """path: below the base URL, with the query. begin: sends the answer's head; send: some of its body."""
        given = {name: value for name, value in headers.items() if name.lower() not in _OURS}
        if self._key:
            given["authorization"] = f"Bearer {self._key}"
        begun = liveness.cut = False
        liveness.requested()
        try:
            async with self._session.request(
                method, self._url + path, data=sendable(body) if body else None, headers=given, allow_redirects=False
            ) as response:
                told = await body_of(response.content, liveness.heard)
                signs = Signs(liveness, lambda: self._server(body), self._without_key, lambda: _tools_in(body))
                if self._is_stream(response, told):
                    begun = True
                    await begin(response.status, {**_passed(response.headers), "content-type": STREAM})
                    await self._stream(told.parts, signs, liveness, send)
                    return
                whole = await self._accepted(response, body, told)
                begun = True
                if (events := _as_events(whole)) is not None and response.method == "POST":
                    await begin(200, STREAM_HEADERS)
                    await send(signs.passed(events))
                    return
                await begin(response.status, _passed(response.headers))
                await send(whole)
        except Problem as problem:
            await self._tell(problem, begin, send)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            await self._tell(server_requests.away(self._name, error), begin, send)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if begun:  # the app-server sees that the stream has no end
                log.warning("gateway.stream_cut", server=self._name, tokens=liveness.tokens, why=str(error))
            else:
                await self._tell(self._server(body).cut(0, server_requests.reason(error)), begin, send)

    def _server(self, body: bytes) -> Server:
        return Server(self._name, _model_in(body))

    def _is_stream(self, response: aiohttp.ClientResponse, body: Body) -> bool:
        said = body.kind is None and response.content_type == STREAM
        return response.status == 200 and (said or body.kind == "events")

    async def _accepted(self, response: aiohttp.ClientResponse, asked: bytes, told: Body) -> bytes:
        """Return the whole body of an answer that is not a stream. Raises Problem for one that is not passed back."""
        body = self._without_key(await beginning(told.parts, BODY_BYTES))
        if response.status == 200 and response.method == "POST" and _as_events(body) is None:
            if (error := server_requests.error_in(body)) is not None:
                raise self._server(asked).of_error(error)
            text = body[:500].decode(errors="replace")
            raise server_requests.wrong_api(masked(str(response.url)), response.content_type, text)
        if 300 <= response.status < 400:
            raise server_requests.redirected(self._name, response.headers.get("location", ""))
        if response.status >= 400:
            server = self._server(asked)
            problem = server.of_status(response.status, response.headers, body)
            problem.plan = {name: value for name, value in response.headers.items() if _of_plan(name)}
            if problem.kind == "not_found":
                raise server.of_endpoint(response.status, body)
            if response.status in _TOLD or problem.kind in _TOLD_KINDS or problem.reset_seconds is not None:
                raise problem
            if response.status < 500 and server_requests.error_in(body) is None:
                raise problem  # a server that fails is asked once more by the app-server, whatever it says
        return body

    def _without_key(self, told: bytes) -> bytes:
        return without_key(told.decode(errors="replace"), self._key).encode() if self._key else told

    async def _tell(self, problem: Problem, begin: Begin, send: Send) -> None:
        log.info("gateway.call_failed", kind=problem.kind, why=problem.shown(self._key), server=self._name)
        await begin(200, {**STREAM_HEADERS, **problem.plan})
        told = failed(problem.told(self._key))
        await send(event("response.created", response={"id": "resp_0"}) + told)

    async def _stream(self, parts: AsyncIterator[bytes], signs: Signs, liveness: Liveness, send: Send) -> None:
        async for part in parts:
            await send(signs.passed(part))
            if liveness.too_long:
                liveness.cut = True
                await send(signs.ending())
                return
        await send(signs.rest())


class Signs:
    """The signs of life in a stream of events, which passes through.

    An event is passed on once it is whole: then a stream can be ended between two of them. server: what failures say of
    it, made when there is one. without_key: hides the provider's key in what failed. tools: that the model may call,
    made when it calls one.
    """

    def __init__(
        self,
        liveness: Liveness,
        server: Callable[[], Server],
        without_key: Callable[[bytes], bytes] = lambda told: told,
        tools: Callable[[], OfferedTools] = lambda: OfferedTools({}),
    ) -> None:
        self._liveness, self._server, self._without_key, self._tools = liveness, server, without_key, tools
        self._buffer = b""
        self._text: list[str] = []
        self._item = ""
        self._told = False  # the current item came in pieces

    def passed(self, part: bytes) -> bytes:
        """Return what is to be passed on after a further part of the stream."""
        buffer = self._buffer + part if self._buffer else part
        end = max((buffer.rfind(mark) + len(mark) for mark in _BREAKS if mark in buffer), default=0)
        if not end:
            self._buffer = buffer
            self._liveness.heard()
            return b""
        whole, self._buffer = buffer[:end], buffer[end:]
        events = _BREAK.split(whole)
        changed = [self._event(one) for one in events if one.strip()]
        if all(new is None for new in changed):
            return whole
        kept = [one for one in events if one.strip()]
        return b"".join((new or old) + b"\n\n" for new, old in zip(changed, kept, strict=True))

    def rest(self) -> bytes:
        """Return the incomplete part at the stream's end."""
        return self._buffer

    def ending(self) -> bytes:
        """Return the end of an answer that was cut off: what there is of its text, and no count of tokens."""
        text = "".join(self._text)
        item = event("response.output_item.done", output_index=0, item=message(text, self._item)) if text else b""
        return item + completed(None)

    def _event(self, told: bytes) -> bytes | None:
        """Look at one event; return another one in its place, or None."""
        found = _KIND.match(told)
        kind = found[1] or found[2] if found is not None else b""
        if found is not None and not found[1] and not kind.startswith(b"response."):  # the type of a part comes first
            kind = str(_data(told).get("type") or "").encode()
        if kind.endswith(b".delta"):
            self._delta(kind, told)
        elif kind == b"response.output_item.added":
            self._opens(told)
        elif kind == b"response.output_item.done":
            return self._closes(told)
        elif kind == b"response.incomplete" or (kind == b"response.completed" and b'"incomplete"' in told):
            return self._incomplete(told)
        elif kind == b"response.failed":
            return self._failed(told)
        elif kind == b"error":
            return self._without_key(told)
        else:
            if kind == b"response.completed":
                self._counted(told)
            self._liveness.heard()
        return None

    def _counted(self, told: bytes) -> None:
        self._liveness.counts += _USAGE.search(told) is not None

    def _delta(self, kind: bytes, told: bytes) -> None:
        found = _DELTA.search(told)
        text = orjson.loads(found[1]) if found is not None else ""
        if b"reasoning" in kind:
            self._liveness.reasons(text)
        else:
            self._liveness.writes(text)
            if kind == b"response.output_text.delta":
                self._text.append(text)
        self._told = True

    def _opens(self, told: bytes) -> None:
        item = _item(told)
        self._item, self._text, self._told = str(item.get("id") or ""), [], False
        if item.get("type") == "reasoning":
            self._liveness.reasons()  # its text may be hidden
        else:
            self._liveness.heard()

    def _closes(self, told: bytes) -> bytes | None:
        """An item that came whole is a sign that the model wrote. Returns the calls that it is, said otherwise."""
        item = _item(told)
        if not self._told:
            reasoning = item.get("type") == "reasoning"
            (self._liveness.reasons if reasoning else self._liveness.writes)()
        else:
            self._liveness.heard()
        self._text, self._told = [], False
        calls = self._read(item)
        if calls is None:
            self._liveness.ends_item(item)
            return None
        index, parts = _data(told).get("output_index") or 0, []
        for place, call in enumerate(calls):
            self._liveness.reads(call.read)
            id_ = str(item.get("call_id") or f"call_{uuid.uuid4().hex}")
            named = {"type": "function_call", "id": f"fc_{uuid.uuid4().hex}", "call_id": id_}
            new = {**(item if item.get("type") == "function_call" else named)}
            new |= {"name": call.name, "arguments": call.arguments or "{}"}
            self._liveness.ends_item(new)
            parts.append(event("response.output_item.done", output_index=index + place, item=new))
        return b"".join(parts).rstrip(b"\n")

    def _read(self, item: Mapping[str, Any]) -> list[MadeCall] | None:
        """Return the calls of an item in another form than it has; None for one that is to stay as it is."""
        if item.get("type") == "function_call" and not item.get("namespace"):
            name, given = str(item.get("name") or ""), item.get("arguments")
            arguments = given if isinstance(given, str) else orjson.dumps(given).decode()
            found = self._tools().read(MadeCall("", name, arguments))
            return [found] if (found.name, found.arguments) != (name, given) else None
        parts = item.get("content") if item.get("type") == "message" else None
        texts = [part.get("text") for part in parts or () if isinstance(part, Mapping)]
        text = "".join(one for one in texts if isinstance(one, str))
        calls = calls_in(text, self._tools()) if text else None
        return calls.calls if calls is not None else None

    def _failed(self, told: bytes) -> bytes | None:
        """Of an overflow the app-server drops what the endpoint says, and counts a whole context as spent. Of a plan's
        limit it drops the time, and a longer rate limit it meets again and again."""
        error = (_data(told).get("response") or {}).get("error") or {}
        problem = self._server().of_error(error)
        long = problem.kind == RATE_LIMITED and (problem.reset_seconds or 0) > LONG_SECONDS
        if error.get("code") != "context_length_exceeded" and problem.kind not in (USAGE_LIMIT, NO_CREDIT) and not long:
            return self._without_key(told)
        return failed(problem.told()).rstrip(b"\n")

    def _incomplete(self, told: bytes) -> bytes | None:
        """An answer that was cut off at its length is one for the desk to look at, which the app-server would drop."""
        response = _data(told).get("response") or {}
        reason = str((response.get("incomplete_details") or {}).get("reason") or "")
        if "filter" in reason or (not reason and response.get("status") == "completed"):
            return None
        self._liveness.cut = True
        self._counted(told)
        return event("response.completed", response={**response, "status": "completed"}).rstrip(b"\n")


_BREAKS = (b"\r\n\r\n", b"\n\n", b"\r\r")
_BREAK = re.compile(b"|".join(_BREAKS))


def _as_events(body: bytes) -> bytes | None:
    """Return the events of an answer that came as one JSON; None for any other body."""
    found = server_requests.loaded(body)
    items = found.get("output") if isinstance(found, Mapping) else None
    if not isinstance(items, list) or not isinstance(found, Mapping):
        return None
    done = [event("response.output_item.done", output_index=at, item=item) for at, item in enumerate(items)]
    status = found.get("status") if found.get("status") in ("incomplete", "failed") else "completed"
    created = event("response.created", response={"id": found.get("id") or "resp_0", "status": "in_progress"})
    return b"".join((created, *done, event(f"response.{status}", response=found)))


def _tools_in(body: bytes) -> OfferedTools:
    given = server_requests.loaded(body)
    tools = given.get("tools") if isinstance(given, Mapping) else None
    functions = [one for one in tools or () if isinstance(one, Mapping) and one.get("type") == "function"]
    return OfferedTools({str(one.get("name")): one.get("parameters") or {} for one in functions})


def _data(told: bytes) -> Mapping[str, Any]:
    lines = [line[5:].strip() for line in told.splitlines() if line.startswith(b"data:")]
    try:
        found = orjson.loads(b"\n".join(lines))
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _item(told: bytes) -> Mapping[str, Any]:
    item = _data(told).get("item")
    return item if isinstance(item, Mapping) else {}


def _of_plan(header: str) -> bool:
    return header.lower().startswith(_PLAN_HEADERS)


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _UNPACKED}


def _model_in(body: bytes) -> str:
    try:
        return str(orjson.loads(body).get("model"))
    except (orjson.JSONDecodeError, AttributeError):
        return "the model"


log = structlog.get_logger(__name__)

THREAD = "thread-id"  # of the request: the app-server sends it for fresh, resumed, forked and ephemeral threads
CONNECT_SECONDS = 20.0
KEEP_SECONDS = 30.0
CLOSE_SECONDS = 1.0
BASE = "/v1"


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where model calls go."""

    url: str  # base URL, such as http://127.0.0.1:11434/v1
    key: str | None = field(repr=False, default=None)
    chat: bool = True  # it is a server of chat completions, and not of the Responses API
    facts: Facts | None = None  # of one of its models, for chat alone; raises DeskError
    ca_file: Path | None = None  # PEM of its trust roots; the system's own without one


class Gateway:
    """The service; every method belongs to the loop that it was started on. A thread is watched while one of its turns
    runs."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._liveness_of: dict[str, tuple[Liveness, dict[str, Any]]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.ServerRunner | None = None
        self._port = 0
        self._passed: PassedCalls | None = None
        self._chat: ChatCalls | None = None

    async def start(self) -> None:
        upstream = self._upstream
        self._session = _session(upstream)
        if upstream.chat:
            assert upstream.facts is not None
            self._chat = ChatCalls(upstream.url, upstream.key, upstream.facts, self._session)
        else:
            self._passed = PassedCalls(upstream.url, upstream.key, self._session)
        server = web.Server(self._answer, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=CLOSE_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=2048)
        await site.start()
        self._port = self._runner.addresses[0][1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{BASE}"

    def watch(self, thread_id: str, liveness: Liveness) -> None:
        """From now on. Logs of the calls name what is bound to logs here, such as the run."""
        self._liveness_of[thread_id] = (liveness, get_contextvars())

    def unwatch(self, thread_id: str) -> None:
        self._liveness_of.pop(thread_id, None)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        liveness, names = self._liveness_of.get(request.headers.get(THREAD, ""), (None, {}))
        # A handler's own are those of the turn that started the gateway.
        clear_contextvars()
        bind_contextvars(**names)
        if liveness is None or not request.path.startswith(f"{BASE}/"):
            log.warning("gateway.not_answered", path=request.path, thread=request.headers.get(THREAD))
            error = {"code": "no_turn", "message": "the gateway answers running turns of its own desk alone"}
            return web.json_response({"error": error}, status=403)
        response = _Response()
        with contextlib.suppress(ConnectionResetError):  # the app-server went away
            await self._told(request, liveness, response)
        return response.ended

    async def _told(self, request: web.BaseRequest, liveness: Liveness, response: _Response) -> None:
        body = await request.content.read()
        if self._passed is not None:
            path = request.raw_path.removeprefix(BASE)
            await self._passed.answer(
                request.method, path, request.headers, body, liveness, response.begun_by(request), response.send
            )
        elif self._chat is not None:
            await response.begun_by(request)(200, STREAM_HEADERS)
            await self._chat.answer(orjson.loads(body), request.headers, liveness, response.send)


class _Response:
    """The answer to one request, whose head is known later than the request."""

    def __init__(self) -> None:
        self.ended: web.StreamResponse = web.StreamResponse()

    def begun_by(self, request: web.BaseRequest) -> Callable[[int, Mapping[str, str]], Awaitable[None]]:
        async def begin(status: int, headers: Mapping[str, str]) -> None:
            self.ended = web.StreamResponse(status=status, headers=headers)
            await self.ended.prepare(request)

        return begin

    async def send(self, body: bytes) -> None:
        if body:
            await self.ended.write(body)


def _session(upstream: Upstream) -> aiohttp.ClientSession:
    parts = urlsplit(upstream.url)
    trust = ssl.create_default_context(cafile=upstream.ca_file) if upstream.ca_file is not None else True
    if parts.scheme == "http":
        # Servers on plain HTTP close a connection after some seconds, llama.cpp after each stream, and a request that
        # was sent on it would be lost; to make another one costs next to nothing there.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
    else:
        connector = aiohttp.TCPConnector(limit=0, ssl=trust, keepalive_timeout=KEEP_SECONDS)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    return aiohttp.ClientSession(
        connector=connector, timeout=timeout, proxy=proxy_of(upstream.url), cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("accept-encoding", "user-agent", "content-type"), auto_decompress=True,
    )  # fmt: skip
