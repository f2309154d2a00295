"""The far side of a Slack app on loopback: its Web API and its socket. People write and press, the bot answers each
envelope; what is not answered is given again when it connects anew."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import WSMsgType, web

from tests.stack import wait_for

BOT_TOKEN, APP_TOKEN = "xoxb-1111111111-stand-in-of-a-token", "xapp-1-A01234567-stand-in-of-a-token"
TEAM, ADA, BOB = "T0DESK", "U0ADA", "U0BOB"


@dataclass
class Message:
    """A message of the bot, as it looks now."""

    ts: str
    channel: str
    text: str
    buttons: dict[str, str] = field(default_factory=dict)
    edits: int = 0


class FakeSlack:
    """faults: by method, what becomes of its next calls: a status, an error's name, `reset` (cut before it is done) or
    `lost` (cut after it). on: called with the method and what was given before each answer. forgets: what was not
    answered is not given again, as a press is not. sockets: how often one was opened."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: dict[str, list[int | str]] = {}
        self.retry_after = "1"
        self.on: Callable[[str, dict[str, Any]], None] | None = None
        self.tokens = (BOT_TOKEN, APP_TOKEN)
        self.answered: list[str] = []
        self.sockets = 0
        self._waiting: dict[str, dict[str, Any]] = {}
        self._socket: web.WebSocketResponse | None = None
        self._number = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def connected(self) -> bool:
        return self._socket is not None and not self._socket.closed

    def __enter__(self) -> FakeSlack:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in asyncio.all_tasks(self._loop):
            self._loop.call_soon_threadsafe(task.cancel)
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def says(self, user: str, text: str, more: dict[str, Any] | None = None, **payload: Any) -> str:
        """A person writes to the bot in a direct message; more: of the event; the envelope's id."""
        event = {
            "type": "message", "channel": f"D{user}", "channel_type": "im", "user": user, "text": text,
            "ts": f"{time.time():.6f}", "team": TEAM, **(more or {}),
        }  # fmt: skip
        given = {"team_id": TEAM, "event_id": f"Ev{next(self._number)}", "event_time": int(time.time()), "event": event}
        return self.gives("events_api", {**given, **payload})

    def presses(
        self,
        user: str,
        data: str,
        channel: str | None = None,
        at: float | None = None,
        payload: dict[str, Any] | None = None,
    ) -> str:
        given = {
            "type": "block_actions", "user": {"id": user, "team_id": TEAM}, "team": {"id": TEAM},
            "channel": {"id": channel or f"D{user}"}, "trigger_id": f"t{next(self._number)}",
            "actions": [{"action_id": "press-0", "value": data, "action_ts": f"{at or time.time():.6f}"}],
        }  # fmt: skip
        return self.gives("interactive", {**given, **(payload or {})})

    def slash(self, user: str, command: str, text: str = "", channel: str | None = None) -> str:
        given = {
            "command": command,
            "text": text,
            "user_id": user,
            "team_id": TEAM,
            "channel_id": channel or f"D{user}",
        }
        return self.gives("slash_commands", {**given, "trigger_id": f"t{next(self._number)}"})

    def gives(self, kind: str, payload: Any, **envelope: Any) -> str:
        """An envelope of any form."""
        id_ = str(uuid.uuid4())
        made = {"envelope_id": id_, "type": kind, "payload": payload, "accepts_response_payload": False, **envelope}
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._give(id_, made)))
        return id_

    def ends_socket(self, reason: str = "refresh_requested") -> None:
        """Say that the socket ends soon, as Slack does every few hours; or cut it."""

        async def end() -> None:
            socket = self._socket
            if socket is None:
                return
            if reason == "cut":
                await socket.close()
            else:
                await socket.send_json({"type": "disconnect", "reason": reason})

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)

    def of(self, user: str) -> list[Message]:
        return [one for one in list(self.messages) if one.channel == f"D{user}"]

    def until(self, user: str, words: str, count: int = 1) -> Message:
        wait_for(lambda: len(self.with_words(user, words)) >= count, f"{words!r} to {user}")
        return self.with_words(user, words)[-1]

    def with_words(self, user: str, words: str) -> list[Message]:
        return [one for one in self.of(user) if words in one.text]

    async def _give(self, id_: str, envelope: dict[str, Any]) -> None:
        self._waiting[id_] = envelope
        if self._socket is not None and not self._socket.closed:
            await self._socket.send_json(envelope)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_post("/api/{method}", self._answer)
        app.router.add_get("/link", self._linked)
        runner = self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self._port = runner.addresses[0][1]
        self._ready.set()
        self._loop.run_forever()
        self._loop.close()

    async def _linked(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._socket, self.sockets = socket, self.sockets + 1
        await socket.send_json({"type": "hello", "num_connections": 1})
        for attempt, envelope in enumerate(list(self._waiting.values()), 1):
            await socket.send_json({**envelope, "retry_attempt": attempt, "retry_reason": "timeout"})
        async for message in socket:
            if message.type is WSMsgType.TEXT and (id_ := message.json().get("envelope_id")) in self._waiting:
                del self._waiting[id_]
                self.answered.append(id_)
        if self._socket is socket:
            self._socket = None
        return socket

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        form = request.content_type != "application/json"  # as Slack's own library calls it without blocks
        given: dict[str, Any] = dict(await request.post()) if form else await request.json()
        self.calls.append((method, given))
        waiting = self.faults.get(method) or []
        fault = waiting.pop(0) if waiting else None
        token = self.tokens[1] if method == "apps.connections.open" else self.tokens[0]
        if request.headers.get("Authorization") != f"Bearer {token}":
            fault = "invalid_auth"
        if fault == "reset":
            return self._cut(request)
        if isinstance(fault, int):
            if fault != 429:
                return web.Response(status=fault, text="<html>a proxy's page</html>")
            headers = {"Retry-After": self.retry_after}
            return web.json_response({"ok": False, "error": "ratelimited"}, status=fault, headers=headers)
        if fault is not None and fault != "lost":
            return web.json_response({"ok": False, "error": fault})
        result = self._done(method, given)
        if self.on is not None:
            await asyncio.to_thread(self.on, method, given)
        return self._cut(request) if fault == "lost" else web.json_response({"ok": True, **result})

    def _cut(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _done(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        if method == "auth.test":
            return {"team_id": TEAM, "team": "desk", "user": "stand_in", "user_id": "U0BOT", "bot_id": "B0BOT"}
        if method == "apps.connections.open":
            return {"url": f"ws://127.0.0.1:{self._port}/link?ticket={uuid.uuid4()}"}
        sections = [one["text"] for one in given["blocks"] if one["type"] == "section"]
        assert all(one["type"] == "plain_text" and len(one["text"]) <= 3000 for one in sections)
        text = "".join(one["text"] for one in sections)
        pressed = [each for one in given["blocks"] if one["type"] == "actions" for each in one["elements"]]
        buttons = {one["text"]["text"]: one["value"] for one in pressed}
        if method == "chat.update":
            (found,) = [one for one in self.messages if one.ts == given["ts"] and one.channel == given["channel"]]
            found.text, found.buttons, found.edits = text, buttons, found.edits + 1
            return {"ts": found.ts}
        made = Message(f"{time.time():.6f}{next(self._number)}", given["channel"], text, buttons)
        self.messages.append(made)
        return {"ts": made.ts, "channel": made.channel}
