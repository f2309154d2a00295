"""What is known of one running turn: its progress, its answer so far, its tokens, its tool calls."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

from agents.codex.failures import is_limit, reset_in
from models.research import Usage
from tools.registry import Toolset

_USAGE_FIELDS = {
    "input_tokens": "inputTokens",
    "cached_input_tokens": "cachedInputTokens",
    "output_tokens": "outputTokens",
    "reasoning_tokens": "reasoningOutputTokens",
    "total_tokens": "totalTokens",
}


# A wait shorter than this before the app-server's own second try is its own, not one the provider asked for.
ASKED_SECONDS = 1.0


class TurnWatch:
    """Collects the notifications of one turn. `done` gets the protocol's Turn, or ProcessDied.

    limited_at: loop time since which the app-server waits for the provider's limit to pass; None when it does not.
    on_limited: called when that begins, with the seconds the provider named, if it did.
    """

    def __init__(self, tools: Toolset, tool_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.tools = tools
        self.tool_seconds = tool_seconds
        self.done: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self.started: asyncio.Future[None] = self._loop.create_future()
        self.touched = self._loop.time()
        self.turn_id: str | None = None
        self.text: str | None = None
        self.error: dict[str, Any] | None = None
        self.usage = Usage()
        self.limited_at: float | None = None
        self.on_limited: Callable[[float | None], None] | None = None
        self.calls: set[asyncio.Task[Any]] = set()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Takes one notification of the turn's thread; what belongs to an earlier turn is passed over."""
        if method == "turn/started":
            self.turn_id = params["turn"]["id"]
            if not self.started.done():
                self.started.set_result(None)
        elif method == "turn/completed":
            if self.turn_id in (None, params["turn"]["id"]) and not self.done.done():
                self.done.set_result(params["turn"])
        elif params.get("turnId") == self.turn_id:
            self._progress(method, params)
        self.touched = self._loop.time()

    def fail(self, error: Exception) -> None:
        """The process is gone: whoever waits for the turn gets this error."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # nobody may be waiting yet; do not warn about that

    def end(self) -> None:
        """The turn is over: no tool call of it goes on."""
        for call in self.calls:
            call.cancel()

    def asked_to_wait(self) -> float | None:
        """How long the provider made the app-server wait, seconds; None when it did not ask."""
        waited = self._loop.time() - self.limited_at if self.limited_at is not None else 0.0
        return waited if waited >= ASKED_SECONDS else None

    def _progress(self, method: str, params: Mapping[str, Any]) -> None:
        if method != "error":
            self.limited_at = None
        if method == "item/completed":
            self._item(params["item"])
        elif method == "thread/tokenUsage/updated":
            self.usage += usage_of(params["tokenUsage"]["last"])
        elif method == "error":
            self._failed(params)

    def _failed(self, params: Mapping[str, Any]) -> None:
        error = params.get("error")
        self.error = None if params.get("willRetry") else error
        if params.get("willRetry") and is_limit(error):
            self.limited_at = self._loop.time()
            if self.on_limited is not None:
                self.on_limited(reset_in(str(error.get("additionalDetails") or "")) if error else None)

    def _item(self, item: Mapping[str, Any]) -> None:
        if item.get("type") == "agentMessage":
            self.text = item.get("text")
        elif item.get("type") == "dynamicToolCall":
            self.text = None  # what was said before a tool call is not the answer


def usage_of(breakdown: Mapping[str, Any]) -> Usage:
    """The usage of one model call; anything but a finite, non-negative number counts as nothing."""
    return Usage(**{name: _count(breakdown.get(wire)) for name, wire in _USAGE_FIELDS.items()})


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if math.isfinite(value) and value >= 0 else 0
