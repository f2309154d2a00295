"""The far side of Telegram's Bot API on loopback: people write and press, the bot polls and sends; with its faults."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web

from tests.stack import wait_for

TOKEN = "123456789:AAstand-in_of_a_token_0123456789"
ADA, BOB = 4711, 4712


@dataclass
class Message:
    """A message of the bot, as it looks now. edits: how often it was changed."""

    number: int
    chat: int
    text: str
    buttons: dict[str, str] = field(default_factory=dict)
    edits: int = 0


class FakeTelegram:
    """faults: by method, what becomes of its next calls: a status, or `silence` (no answer), `reset` (cut before it is
    done), `lost` (cut after it is done), `half` (half of the body, done), `huge` (10 MB of body, done). on: called with
    the method and what was given before each answer. ahead: seconds by which its clock is ahead; repeats: it
    gives all updates again and again."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.toasts: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: dict[str, list[int | str]] = {}
        self.retry_after: Any = 1
        self.on: Callable[[str, dict[str, Any]], None] | None = None
        self.ahead = 0.0
        self.repeats = False
        self.token = TOKEN
        self._updates: list[dict[str, Any]] = []
        self._number = 700
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._port = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def environ(self) -> dict[str, str]:
        return {"DESK_MESSENGERS_TELEGRAM_TOKEN": TOKEN, "DESK_MESSENGERS_TELEGRAM_API": self.url}

    def __enter__(self) -> FakeTelegram:
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

    def says(self, user: int, text: str, more: dict[str, Any] | None = None) -> int:
        """A person writes to the bot, by default in a private chat and now; more: in place of that."""
        message = {
            "message_id": self._number, "date": int(time.time() + self.ahead), "text": text,
            "from": {"id": user, "is_bot": False, "first_name": "x"}, "chat": {"id": user, "type": "private"},
        }  # fmt: skip
        return self.gives({"message": message | (more or {})})

    def presses(self, user: int, data: str, chat: int | None = None) -> int:
        chat = user if chat is None else chat
        where = {"id": chat, "type": "private" if chat == user else "group"}
        pressed = {
            "id": f"press-{self._number}", "data": data, "from": {"id": user, "is_bot": False},
            "message": {"message_id": 1, "date": 1, "chat": where},
        }  # fmt: skip
        return self.gives({"callback_query": pressed})

    def gives(self, update: dict[str, Any], number: int | None = None) -> int:
        """An update of any form. number: one that was there before, or goes back."""
        self._number += 1
        found = self._number if number is None else number
        self._updates.append({"update_id": found, **update})
        self._loop.call_soon_threadsafe(self._changed.set)
        return found

    def of(self, chat: int) -> list[Message]:
        return [one for one in list(self.messages) if one.chat == chat]

    def until(self, chat: int, words: str, count: int = 1) -> Message:
        """Wait for so many messages with these words to a chat, and return the last."""
        wait_for(lambda: len(self.with_words(chat, words)) >= count, f"{words!r} to {chat}")
        return self.with_words(chat, words)[-1]

    def with_words(self, chat: int, words: str) -> list[Message]:
        return [one for one in self.of(chat) if words in one.text]

    def given(self, method: str) -> int:
        return sum(1 for one, _ in list(self.calls) if one == method)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_post("/bot{token}/{method}", self._answer)
        runner = self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self._port = runner.addresses[0][1]
        self._ready.set()
        self._loop.run_forever()
        self._loop.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        method, given = request.match_info["method"], await request.json()
        self.calls.append((method, given))
        waiting = self.faults.get(method) or []
        fault = waiting.pop(0) if waiting else None
        if request.match_info["token"] != self.token:
            fault = 401
        if fault == "silence":
            await asyncio.sleep(3600)
        if fault == "reset":
            return self._cut(request)
        if isinstance(fault, int):
            return self._refusal(fault)
        result = await self._done(method, given)
        if self.on is not None:
            await asyncio.to_thread(self.on, method, given)
        if fault == "lost":
            return self._cut(request)
        answer = web.json_response({"ok": True, "result": result})
        if fault in ("half", "huge"):
            body = answer.body[: len(answer.body) // 2] if fault == "half" else b"[" * 10_000_000  # type: ignore[index]
            whole = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "11000000"})
            await whole.prepare(request)
            await whole.write(bytes(body))  # type: ignore[arg-type]
            return self._cut(request)
        return answer

    def _cut(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _refusal(self, status: int) -> web.Response:
        told = {
            401: "Unauthorized", 403: "Forbidden: bot was blocked by the user",
            409: "Conflict: terminated by other getUpdates request", 429: "Too Many Requests",
        }.get(status, "an error")  # fmt: skip
        body: dict[str, Any] = {"ok": False, "error_code": status, "description": told}
        if status == 429:
            body["parameters"] = {"retry_after": self.retry_after}
        return web.json_response(body, status=status)

    async def _done(self, method: str, given: dict[str, Any]) -> Any:
        if method == "getMe":
            return {"id": 1, "is_bot": True, "username": "stand_in_bot"}
        if method == "getUpdates":
            return await self._polled(given)
        buttons = {one["text"]: one["callback_data"] for row in _keys(given) for one in row}
        if method == "sendMessage":
            made = Message(len(self.messages) + 1, given["chat_id"], given["text"], buttons)
            self.messages.append(made)
            return {"message_id": made.number}
        if method == "editMessageText":
            found = self.messages[given["message_id"] - 1]
            found.text, found.buttons, found.edits = given["text"], buttons, found.edits + 1
        if method == "answerCallbackQuery":
            self.toasts.append(given["text"])
        return True

    async def _polled(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        offset, until = given.get("offset"), self._loop.time() + min(given["timeout"], 2.0)
        if self.repeats:
            await asyncio.sleep(0.02)
        elif offset is not None:
            self._updates = [one for one in self._updates if one["update_id"] >= offset]
        while not self._updates and self._loop.time() < until:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), until - self._loop.time())
            except TimeoutError:
                break
        return self._updates[: given["limit"]]


def _keys(given: dict[str, Any]) -> list[list[dict[str, str]]]:
    found: list[list[dict[str, str]]] = given.get("reply_markup", {}).get("inline_keyboard", [])
    return found
