"""The gateway: a service on loopback that the app-servers of one process send their model calls to.

It sees all that the provider sends, and reports to the pulse of the turn that asked: signs of life which the app-server
does not pass on. A server of chat completions is put to and read back (`chat`), an endpoint of the Responses API gets
the calls as they are (`passing`). It answers the turns that run here and nobody else: it has the provider's key.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
import structlog
from aiohttp import web
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

from chordesk.agents.gateway.chat import ChatCalls, Facts
from chordesk.agents.gateway.passing import STREAM_HEADERS, PassedCalls
from chordesk.agents.gateway.wire import proxy_of
from chordesk.agents.pulse import Pulse

log = structlog.get_logger(__name__)

THREAD = "thread-id"  # of the request: the app-server sends it for fresh, resumed, forked and ephemeral threads
CONNECT_SECONDS = 20.0
KEEP_SECONDS = 30.0
CLOSE_SECONDS = 1.0
BASE = "/v1"


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where model calls go. url: base URL, such as http://127.0.0.1:11434/v1. chat: it is a server of chat completions,
    and not of the Responses API. facts: of one of its models, for chat alone; raises DeskError. ca_file: PEM of its
    trust roots; the system's own without one."""

    url: str
    key: str | None = field(repr=False, default=None)
    chat: bool = True
    facts: Facts | None = None
    ca_file: Path | None = None


class Gateway:
    """The service; every method belongs to the loop that it was started on. A thread is watched while one of its turns
    runs."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._pulses: dict[str, tuple[Pulse, dict[str, Any]]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.ServerRunner | None = None
        self._port = 0
        self._passed: PassedCalls | None = None
        self._chat: ChatCalls | None = None

    async def start(self) -> None:
        """Listen on a free port of loopback."""
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

    def watch(self, thread_id: str, pulse: Pulse) -> None:
        """Report the model calls of a thread to a pulse, and answer them, from now on. Their logs name what is bound to
        logs here, such as the run."""
        self._pulses[thread_id] = (pulse, get_contextvars())

    def unwatch(self, thread_id: str) -> None:
        self._pulses.pop(thread_id, None)

    async def close(self) -> None:
        """End the service; calls that are still open are cut."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        pulse, names = self._pulses.get(request.headers.get(THREAD, ""), (None, {}))
        # A handler's own are those of the turn that started the gateway.
        clear_contextvars()
        bind_contextvars(**names)
        if pulse is None or not request.path.startswith(f"{BASE}/"):
            log.warning("gateway.not_answered", path=request.path, thread=request.headers.get(THREAD))
            error = {"code": "no_turn", "message": "the gateway answers running turns of its own desk alone"}
            return web.json_response({"error": error}, status=403)
        response = _Response()
        with contextlib.suppress(ConnectionResetError):  # the app-server went away
            await self._told(request, pulse, response)
        return response.ended

    async def _told(self, request: web.BaseRequest, pulse: Pulse, response: _Response) -> None:
        body = await request.content.read()
        if self._passed is not None:
            path = request.raw_path.removeprefix(BASE)
            await self._passed.answer(
                request.method, path, request.headers, body, pulse, response.begun_by(request), response.send
            )
        elif self._chat is not None:
            await response.begun_by(request)(200, STREAM_HEADERS)
            await self._chat.answer(orjson.loads(body), request.headers, pulse, response.send)


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
