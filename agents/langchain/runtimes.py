"""Runtimes of a program that is not a desk's worker: one for each model and provider, on an event loop in a thread."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from chordesk.agents.codex.launch import RuntimeConfig
from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.langchain.bridge import ChatAnswer, ChatCall, OnText, error_from, exchange
from chordesk.agents.pulse import TurnLimits
from chordesk.agents.role_models import LOCAL
from chordesk.agents.runtime import Conversation, Lifecycle, Scope
from chordesk.models.errors import DeskError, SettingError
from chordesk.models.events import Envelope, EventType

T = TypeVar("T")
START_SECONDS = 60.0
CLOSE_SECONDS = 5.0
WORKER = "chat"  # name of the homes of such runtimes


@dataclass(frozen=True, slots=True)
class Connection:
    """What a runtime is made for. binary: None for that of the pinned wheel. ca_file: PEM of trust roots."""

    model: str
    provider: str
    url: str | None
    key: str | None
    home: Path
    binary: Path | None = None
    ca_file: Path | None = None


class _Deltas:
    """Listener to growing answers, by thread."""

    def __init__(self) -> None:
        self._listeners: dict[str, OnText] = {}
        self._texts: dict[tuple[str, str], str] = {}

    def listen(self, thread_id: str, on_text: OnText) -> None:
        self._listeners[thread_id] = on_text

    def forget(self, thread_id: str) -> None:
        self._listeners.pop(thread_id, None)
        for key in [key for key in self._texts if key[0] == thread_id]:
            del self._texts[key]

    def record(self, scope: Scope, events: Sequence[Envelope], lifecycles: Sequence[Lifecycle] = ()) -> None:
        for event in events:
            thread = event.thread_id or ""
            if event.type != EventType.ITEM_DELTA or thread not in self._listeners:
                continue
            key = (thread, event.item_id or "")
            text = self._texts[key] = self._texts.get(key, "") + str(event.payload["text"])
            if text.lstrip()[:1] == "{":  # a summary of the reasoning is prose
                self._listeners[thread](text)


class OwnBridge:
    """A Codex runtime on an event loop in a thread of this process. It starts with its first call."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = asyncio.new_event_loop()
        self._starting: asyncio.Task[CodexRuntime] | None = None
        self._deltas = _Deltas()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chat-loop", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def answer(self, call: ChatCall, on_text: OnText | None = None) -> ChatAnswer:
        runtime = await self._runtime()
        threads: list[str] = []

        def opened(conversation: Conversation) -> None:
            threads.append(conversation.thread_id)
            if on_text is not None:
                self._deltas.listen(conversation.thread_id, on_text)

        try:
            return await exchange(runtime, call, {"caller": "langchain", "node": call.node}, opened)
        finally:
            for thread in threads:
                self._deltas.forget(thread)

    def close(self) -> None:
        if self._starting is not None:
            self.submit(self._end()).result(CLOSE_SECONDS * 3)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)

    async def _runtime(self) -> CodexRuntime:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        try:
            return await asyncio.shield(self._starting)
        except DeskError as error:
            self._starting = None
            raise error_from(error) from error

    async def _start(self) -> CodexRuntime:
        one = self._connection
        if one.ca_file is not None and not one.ca_file.is_file():
            raise SettingError(
                f"the trust roots {one.ca_file} are no file", remedy="correct ca_file, or DESK_CODEX_CA_FILE"
            )
        config = RuntimeConfig(
            one.home, WORKER, one.provider, one.model, one.url, one.key, binary=one.binary, deltas=True,
            ca_file=one.ca_file, limits=TurnLimits(turn_seconds=3600.0), kept_processes=1,
        )  # fmt: skip
        if one.provider == LOCAL and one.url is not None:
            from chordesk.agents.gateway.probe import KnownServer  # its library is for model servers alone

            config = replace(config, facts=KnownServer(one.home, one.url, one.key))
        runtime = CodexRuntime(config, observer=self._deltas)
        async with asyncio.timeout(START_SECONDS):
            await runtime.start()
        return runtime

    async def _end(self) -> None:
        assert self._starting is not None
        try:
            runtime = await self._starting
        except DeskError:
            return
        await runtime.close(CLOSE_SECONDS)


_lock = threading.Lock()
_bridges: dict[Connection, OwnBridge] = {}


def own_bridge(connection: Connection) -> OwnBridge:
    with _lock:
        if connection not in _bridges:
            _bridges[connection] = OwnBridge(connection)
        return _bridges[connection]


def close_bridges() -> None:
    with _lock:
        bridges = list(_bridges.values())
        _bridges.clear()
    for bridge in bridges:
        bridge.close()


atexit.register(close_bridges)
os.register_at_fork(after_in_child=_bridges.clear)  # threads do not come along
