"""Limits of connections: what a client may cost before it has shown a token.

h11 bounds the size of a request's head. Here are the time limits of heads and bodies, and a cap on idle connections:
past it, the unauthenticated ones that have been idle longest are closed, so that hundreds of silent clients cannot lock
others out.
"""

from __future__ import annotations

import asyncio
import gc
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import h11
import structlog
import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 10.0  # for a whole head, from the connection, or from an unauthenticated client's last answer
BODY_SECONDS = 10.0  # for a whole body, from its head
ANSWER_SECONDS = 30.0  # until an unauthenticated client has taken its answer
HELLO_SECONDS = 10.0  # for a program's first message, which has the token
KEEP_ALIVE_SECONDS = 60  # without a request, once it has shown a token
NEXT_SECONDS = 0.25  # until such a client's next request of one packet is read: hundreds cost it nothing
STOP_SECONDS = 2
CLIENT_WAITS = 64  # connections of one address that wait for it
ALL_WAIT = 256
SPARED_SECONDS = 2.0  # a connection's first, in which it is not too many
AT_ONCE = 768  # that wait, spared or not: many systems allow a process 1,024 files
TELL_SECONDS = 60.0
READ_BYTES = 16 * 1024
MOST_BYTES = 64 * 1024  # of a body, and of a program's message
MOST_DEPTH = 32  # of its JSON
MOST_FRAMES = 16  # of such a client's message: clients send one, and thousands of empty ones are cheap to send
FRAME_BYTES = 512  # of such a client that are parsed before its frames are counted
log = structlog.get_logger(__name__)
_LET_IN = "let_in"
_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_BAD = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
# A text that does not end goes to the end: looked for again behind each of its quotes it would take minutes.
_JSON = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def let_in(scope: Scope) -> None:
    """Note that the client of a connection has shown a token."""
    if noted := scope.get("state", {}).get(_LET_IN):
        noted()


def is_too_deep(text: str) -> bool:
    """Return whether JSON is nested deeper than any request is: parsers and writers of JSON call themselves."""
    depth = 0
    for found in _JSON.finditer(text):
        letter = found[0]
        depth += letter in ("[", "{")
        depth -= letter in ("]", "}")
        if depth > MOST_DEPTH:
            return True
    return False


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class ConnectionLimits:
    """The connections of one server that wait for their clients, by when they began to."""

    def __init__(self) -> None:
        self.buffer = bytearray(READ_BYTES)  # of all connections: what is read is handed over at once
        self._waiting: dict[LimitedHttp | LimitedWebSocket, float] = {}
        self._closed, self._told = 0, -TELL_SECONDS

    def wait(self, one: LimitedHttp | LimitedWebSocket, seconds: float) -> None:
        """Close a connection that still waits after so many seconds."""
        self._waiting.pop(one, None)
        self._waiting[one] = one.loop.time() + seconds
        if len(self._waiting) > AT_ONCE:
            self._close(next((first for first in self._waiting if not first.known), one))

    def waits(self, one: LimitedHttp | LimitedWebSocket) -> bool:
        return one in self._waiting

    def forget(self, one: LimitedHttp | LimitedWebSocket) -> None:
        self._waiting.pop(one, None)

    def look(self, now: float) -> None:
        """Close the connections whose time is over, and those that are too many."""
        # Unauthenticated connections are counted apart: however many there are, none closes an authenticated one.
        many = Counter(one.known for one in self._waiting)
        of_client = Counter((one.address, one.known) for one in self._waiting)
        for one, until in list(self._waiting.items()):
            over = of_client[one.address, one.known] > CLIENT_WAITS or many[one.known] > ALL_WAIT
            if now > until or (over and now > one.began + SPARED_SECONDS):
                many[one.known] -= 1
                of_client[one.address, one.known] -= 1
                self._close(one)
        if self._closed and now > self._told + TELL_SECONDS:
            log.warning("connections.closed", strangers=self._closed, note="no whole request, or too many")
            self._closed, self._told = 0, now

    def _close(self, one: LimitedHttp | LimitedWebSocket) -> None:
        self._closed += not one.known
        self.forget(one)
        one.let_go()


class LimitedHttp(H11Protocol, asyncio.BufferedProtocol):
    """One connection. known: it has shown a token."""

    def __init__(self, keeper: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self._keeper, self.known, self.began = keeper, False, self.loop.time()
        self.app_state = {**self.app_state, _LET_IN: self._let_in}

    @property
    def address(self) -> str:
        return self.client[0] if self.client is not None else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(READ_BYTES)
        self._keeper.wait(self, HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._keeper.forget(self)
        super().connection_lost(exc)
        # Else it would stay with all it has read until the next full collection.
        self.app_state, self.scope, self.cycle = {}, None, None  # type: ignore[assignment]

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._keeper.buffer

    def buffer_updated(self, nbytes: int) -> None:
        before = self.conn.their_state
        self.data_received(bytes(memoryview(self._keeper.buffer)[:nbytes]))
        if not self.transport.is_closing() and self.transport.get_protocol() is self:
            self._await_client(before)

    def _await_client(self, before: Any) -> None:
        state = self.conn.their_state
        if state is h11.IDLE or state is h11.SEND_BODY:
            if state is not before or not self._keeper.waits(self):
                self._keeper.wait(self, HEAD_SECONDS if state is h11.IDLE else BODY_SECONDS)
        elif self.known:
            self._keeper.forget(self)
        elif state is not before:
            self._keeper.wait(self, ANSWER_SECONDS)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._keeper.forget(self)
        super().handle_websocket_upgrade(event)
        self.app_state = {}  # as above, and with h11's buffer: the connection is another protocol's now

    def on_response_complete(self) -> None:
        if not self.known and self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
            self.loop.call_later(NEXT_SECONDS, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self._keeper.wait(self, KEEP_ALIVE_SECONDS if self.known else HEAD_SECONDS)

    def let_go(self) -> None:
        if self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.SEND_RESPONSE:
            self.transport.write(_LATE)
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _let_in(self) -> None:
        self.known = True
        if self.conn.their_state is not h11.SEND_BODY:
            self._keeper.forget(self)


class LimitedWebSocket(WebSocketsSansIOProtocol, asyncio.BufferedProtocol):
    """A program's WebSocket. The token is in its first message; until then few bytes are taken."""

    def __init__(self, keeper: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self._keeper, self.known, self.began, self._came = keeper, False, self.loop.time(), 0
        self.app_state = {**self.app_state, _LET_IN: self._let_in}

    @property
    def address(self) -> str:
        return self.client[0] if self.client is not None else ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._keeper.wait(self, HELLO_SECONDS + STOP_SECONDS)  # the connection itself says first that it is late

    def connection_lost(self, exc: Exception | None) -> None:
        self._keeper.forget(self)
        super().connection_lost(exc)
        self.app_state = {}  # else it would stay with all it has read until the next full collection

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._keeper.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(memoryview(self._keeper.buffer)[:nbytes]))

    def data_received(self, data: bytes) -> None:
        self._came += len(data)
        if self.known:
            super().data_received(data)
            return
        if self._came > HEAD_BYTES + MOST_BYTES:
            self.transport.abort()
        for at in range(0, len(data), FRAME_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[at : at + FRAME_BYTES])
            if not self.known and len(self.frames) > MOST_FRAMES:
                self.transport.abort()
        if self.conn.handshake_exc is not None and not self.handshake_initiated:  # h11 takes longer heads
            self.transport.write(_BAD)
            self.transport.close()

    def send_receive_event_to_app(self) -> None:
        # uvicorn would log what unauthenticated clients send, with a traceback.
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_text(b"".join(self.frames)):
            self.conn.send_close(CloseCode.INVALID_DATA)
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    async def send(self, message: Any) -> None:
        # Closed for a broken frame: the connection's own task does not know yet.
        if self.close_sent and self.initial_response is None:
            raise ClientDisconnected
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # by a refusal, which uvicorn would log as an error

    def let_go(self) -> None:
        self.transport.abort()

    def _let_in(self) -> None:
        self.known = True
        self._keeper.forget(self)


class LimitedServer(uvicorn.Server):
    """A server that announces its start, and whose clients are bounded. programs: it has a WebSocket."""

    def __init__(self, app: ASGIApp, announce: Callable[[], None], *, programs: bool, lifespan: bool) -> None:
        self._keeper, self._announce = ConnectionLimits(), announce
        config = uvicorn.Config(
            app, loop="asyncio", lifespan="on" if lifespan else "off", http=partial(LimitedHttp, self._keeper),  # type: ignore[arg-type]
            ws=partial(LimitedWebSocket, self._keeper) if programs else "none",  # type: ignore[arg-type]
            ws_max_size=MOST_BYTES, ws_per_message_deflate=False, h11_max_incomplete_event_size=HEAD_BYTES,
            access_log=False, log_config=None, log_level="error", proxy_headers=False, server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=STOP_SECONDS,
        )  # fmt: skip
        super().__init__(config)

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        # What was loaded stays, so that collections are short, and may come as often as connections end.
        gc.freeze()
        gc.set_threshold(2000, 10, 10)
        self._announce()

    async def on_tick(self, counter: int) -> bool:
        self._keeper.look(asyncio.get_running_loop().time())
        return await super().on_tick(counter)
