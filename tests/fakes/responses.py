"""The far side of the model wire: a scriptable Responses API on loopback.

In a test: `with FakeResponses() as model:` starts it on a thread of its own; `model.script(...)` queues
replies, `model.policy` decides when the queue is empty, `model.requests` holds every request with its time.
As a process, for measuring: `python -m tests.fakes.responses --port 0 --latency 0 --scenario tool-then-final`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import uvicorn

from tests.fakes.serving import PromptServer
from tests.patience import PATIENCE

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

USAGE = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
JSON_HEADERS = [(b"content-type", b"application/json")]
SSE_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Text:
    """A final assistant message."""

    text: str
    usage: Mapping[str, Any] | None = field(default_factory=lambda: USAGE)


@dataclass(frozen=True, slots=True)
class Streamed:
    """A final assistant message that comes in pieces first, this many."""

    text: str
    pieces: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one tool."""

    name: str
    arguments: str = "{}"
    usage: Mapping[str, Any] | None = field(default_factory=lambda: USAGE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An assistant message with a refusal as its only content part."""

    text: str


@dataclass(frozen=True, slots=True)
class Status:
    """A plain HTTP error."""

    code: int
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failing:
    """A stream with `response.failed` and this error code."""

    code: str
    message: str = "the model failed"


@dataclass(frozen=True, slots=True)
class Cut:
    """A stream that ends without `response.completed`."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A stream with data lines that are no JSON."""


@dataclass(frozen=True, slots=True)
class Silence:
    """No byte of an answer for this long, then a plain text."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Slow:
    """Another reply, this much later."""

    seconds: float
    reply: Reply


@dataclass(frozen=True, slots=True)
class Dripping:
    """A model that takes its time: a message whose pieces come `gap` seconds apart."""

    text: str
    pieces: int
    gap: float


@dataclass(frozen=True, slots=True)
class Searched:
    """The provider's own search of the web, then an answer. actions: as the Responses API has them."""

    actions: tuple[Mapping[str, Any], ...]
    text: str


Reply = Dripping | Searched | Text | Streamed | Call | Refusal | Status | Failing | Cut | Malformed | Silence | Slow
Policy = Callable[[dict[str, Any]], Reply]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it came in; at is time.monotonic()."""

    at: float
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def tools(self) -> list[str]:
        return [tool.get("name") or tool.get("type", "?") for tool in self.body.get("tools") or []]

    @property
    def metadata(self) -> dict[str, Any]:
        """The turn metadata the caller attached, wherever the client put it."""
        found = dict(self.body.get("client_metadata") or {})
        nested = found.pop("x-codex-turn-metadata", None)
        return {**found, **(json.loads(nested) if nested else {})}


def answered(body: dict[str, Any]) -> bool:
    """Return whether a tool output came after the last user message."""
    for item in reversed(body.get("input") or []):
        if item.get("type") == "function_call_output":
            return True
        if item.get("type") == "message" and item.get("role") == "user":
            return False
    return False


def tool_then_final(name: str, arguments: str, answer: str) -> Policy:
    """Calls one tool once a turn, then answers the text. An empty name means the first tool offered."""

    def policy(body: dict[str, Any]) -> Reply:
        if answered(body):
            return Text(answer)
        offered = [tool.get("name") for tool in body.get("tools") or []]
        chosen = name or (offered[0] if offered else "")
        return Call(chosen, arguments) if chosen else Text(answer)

    return policy


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def _message(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "id": f"msg_{next(_numbers)}", "content": [part]}


def _stream(item: dict[str, Any], usage: Mapping[str, Any] | None) -> bytes:
    number = f"resp_{next(_numbers)}"
    counted = {"usage": dict(usage)} if usage is not None else {}
    return b"".join(
        (
            _event("response.created", response={"id": number}),
            _event("response.output_item.done", output_index=0, item=item),
            _event("response.completed", response={"id": number, "output": [item], **counted}),
        )
    )


def _streamed(reply: Streamed) -> bytes:
    number, item = f"resp_{next(_numbers)}", _message({"type": "output_text", "text": reply.text, "annotations": []})
    size = -(-len(reply.text) // reply.pieces)
    pieces = [reply.text[start : start + size] for start in range(0, len(reply.text), size)]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    return b"".join(
        (
            _event("response.created", response={"id": number}),
            _event("response.output_item.added", output_index=0, item={**item, "content": []}),
            *(_event("response.output_text.delta", delta=piece, **place) for piece in pieces),
            _event("response.output_item.done", output_index=0, item=item),
            _event("response.completed", response={"id": number, "output": [item], "usage": USAGE}),
        )
    )


def _searched(reply: Searched) -> bytes:
    number, message = f"resp_{next(_numbers)}", _message({"type": "output_text", "text": reply.text, "annotations": []})
    calls = [
        {"type": "web_search_call", "id": f"ws_{next(_numbers)}", "status": "completed", "action": dict(action)}
        for action in reply.actions
    ]
    done = [
        _event("response.output_item.done", output_index=index, item=item)
        for index, item in enumerate([*calls, message])
    ]
    completed = _event("response.completed", response={"id": number, "output": [*calls, message], "usage": USAGE})
    return b"".join((_event("response.created", response={"id": number}), *done, completed))


def stream_of(reply: Reply) -> bytes:
    """The bytes of a reply that is a whole or a broken stream."""
    if isinstance(reply, Call):
        item = {"type": "function_call", "id": f"fc_{next(_numbers)}", "call_id": f"call_{next(_numbers)}"}
        return _stream({**item, "name": reply.name, "arguments": reply.arguments}, reply.usage)
    if isinstance(reply, Text):
        return _stream(_message({"type": "output_text", "text": reply.text, "annotations": []}), reply.usage)
    if isinstance(reply, Streamed):
        return _streamed(reply)
    if isinstance(reply, Searched):
        return _searched(reply)
    if isinstance(reply, Refusal):
        return _stream(_message({"type": "refusal", "refusal": reply.text}), USAGE)
    created = _event("response.created", response={"id": f"resp_{next(_numbers)}"})
    if isinstance(reply, Failing):
        error = {"code": reply.code, "message": reply.message}
        return created + _event("response.failed", response={"id": "resp_f", "error": error})
    if isinstance(reply, Malformed):
        return created + b"event: response.output_item.done\ndata: {not json\n\n" * 2
    return created


class FakeResponses:
    """A Responses API on loopback; thread-safe to script while it serves."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        latency: float = 0.0,
        port: int = 0,
        log: bool = True,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        """tls: files of a certificate and its key, to be served by."""
        self.policy: Policy = policy or (lambda _body: Text('{"ok":true}'))
        self.latency = latency
        self.requests: list[Seen] = []
        self._replies: deque[Reply] = deque()
        self._log = log
        self._socket = socket.create_server(("127.0.0.1", port), backlog=2048)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # see tasks.web.serving.bind
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        certificate, key = tls or (None, None)
        config = uvicorn.Config(
            self, lifespan="off", http="httptools", ws="none", access_log=False, log_level="critical",
            timeout_keep_alive=60, timeout_graceful_shutdown=1, ssl_certfile=certificate, ssl_keyfile=key,
        )  # fmt: skip
        self._server = PromptServer(config)
        self._thread = threading.Thread(target=self.serve, name="fake-responses", daemon=True)

    def script(self, *replies: Reply) -> None:
        """Queues replies for the next requests; when they are used up the policy answers."""
        self._replies.extend(replies)

    def calls(self) -> Iterable[Seen]:
        return [seen for seen in self.requests if seen.path.endswith("/responses")]

    def serve(self) -> None:
        """Serves until stopped; blocks."""
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def __enter__(self) -> FakeResponses:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.end()
        self._thread.join(PATIENCE)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        at = time.monotonic()
        raw = await _read(receive)
        if any(name == b"upgrade" for name, _ in scope["headers"]):
            await _answer(send, 426, JSON_HEADERS, b"{}")  # plain HTTP only
            return
        if scope["method"] == "GET":
            await _answer(send, 200, JSON_HEADERS, orjson.dumps({"object": "list", "data": [], "models": []}))
            return
        body = orjson.loads(raw) if raw else {}
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        seen = Seen(at, scope["path"], headers, body)
        if self._log:
            self.requests.append(seen)
        await self.answer(seen, receive, send)

    async def answer(self, seen: Seen, receive: Receive, send: Send) -> None:
        """Answer one request. `receive` reports that the caller has gone."""
        reply = self._replies.popleft() if self._replies else self.policy(seen.body)
        await self._reply(reply, send)

    async def _reply(self, reply: Reply, send: Send) -> None:
        if isinstance(reply, Slow):
            await asyncio.sleep(reply.seconds)
            reply = reply.reply
        if isinstance(reply, Silence):
            await asyncio.sleep(reply.seconds)
            reply = Text('{"ok":true}')
        if self.latency:
            await asyncio.sleep(self.latency)
        if isinstance(reply, Dripping):
            await _drip(send, reply)
        elif isinstance(reply, Status):
            extra = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
            await _answer(send, reply.code, JSON_HEADERS + extra, orjson.dumps(reply.body))
        else:
            await _answer(send, 200, SSE_HEADERS, stream_of(reply))


async def _drip(send: Send, reply: Dripping) -> None:
    """Send a reply piece by piece."""
    await send({"type": "http.response.start", "status": 200, "headers": SSE_HEADERS})
    whole = _streamed(Streamed(reply.text, reply.pieces)).split(b"\n\n")
    for event in filter(None, whole):
        await send({"type": "http.response.body", "body": event + b"\n\n", "more_body": True})
        await asyncio.sleep(reply.gap)
    await send({"type": "http.response.body", "body": b""})


async def _read(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _answer(send: Send, code: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": code, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def _roles_and_graphs(roles: Policy) -> Policy:
    """Return the policy of a model that obeys graphs, which have no tools of the app-server's. roles: its answers to
    requests that have some."""
    from tests.fakes.obedient import obedient  # it needs this module

    return lambda body: (roles if body.get("tools") else obedient)(body)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.responses")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds added to every answer")
    parser.add_argument("--scenario", choices=("tool-then-final", "final", "graphs"), default="tool-then-final")
    parser.add_argument("--tool", default="", help="name of the tool to call; the first one offered when empty")
    parser.add_argument("--arguments", default="{}", help="its arguments, JSON")
    parser.add_argument("--answer", default='{"ok":true}', help="the final text")
    options = parser.parse_args()
    policy = tool_then_final(options.tool, options.arguments, options.answer)
    if options.scenario == "final":
        policy = lambda _body: Text(options.answer)  # noqa: E731
    if options.scenario == "graphs":
        policy = _roles_and_graphs(policy)
    server = FakeResponses(policy, latency=options.latency, port=options.port, log=False)
    print(server.url, flush=True)
    server.serve()


if __name__ == "__main__":
    from tests.fakes import responses  # by its name, as other modules import it: its classes are there once

    responses.main()
