"""A runtime in plain Python: answers turns from a script and keeps threads in memory, without any process."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from chordesk.agents.runtime import ConversationSpec, ProcessStatus, TurnResult
from chordesk.models.answers import Failure, Usage

USAGE = Usage(input_tokens=100, output_tokens=20, total_tokens=120)


@dataclass(frozen=True, slots=True)
class FakeTurn:
    """A scripted turn. calls: tools with their arguments, called before the answer."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    refusal: str | None = None
    failure: Failure | None = None
    seconds: float = 0.0
    model: str | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class FakePrompt:
    """A turn as the runtime got it."""

    spec: ConversationSpec
    text: str
    schema: Mapping[str, Any]
    metadata: Mapping[str, str]


@dataclass
class FakeRuntime:
    """Implements agents.runtime.Runtime. turns: the script; when it is empty, `policy` makes the turn."""

    policy: Callable[[FakePrompt], FakeTurn] = lambda _prompt: FakeTurn()
    turns: deque[FakeTurn] = field(default_factory=deque)
    prompts: list[FakePrompt] = field(default_factory=list)
    threads: dict[tuple[str, str, str], str] = field(default_factory=dict)

    async def start(self) -> None:
        return None

    async def close(self, grace_seconds: float) -> None:
        return None

    def status(self) -> list[ProcessStatus]:
        return []

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        return False

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[FakeConversation]:
        key = (spec.role, spec.subject, spec.model)
        kept = self.threads.get(key) if spec.keep and spec.opening == "same" else None
        thread_id = kept or f"thread-{next(_numbers)}"
        if spec.keep:
            self.threads[key] = thread_id
        yield FakeConversation(self, spec, thread_id, "resumed" if kept else "initial")


class FakeConversation:
    """Implements agents.runtime.Conversation."""

    def __init__(self, runtime: FakeRuntime, spec: ConversationSpec, thread_id: str, reason: str) -> None:
        self.thread_id, self.reason = thread_id, reason
        self._runtime, self._spec = runtime, spec
        self._stop = asyncio.Event()

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        prompt = FakePrompt(self._spec, text, output_schema, metadata)
        self._runtime.prompts.append(prompt)
        turn = self._runtime.turns.popleft() if self._runtime.turns else self._runtime.policy(prompt)
        turn_id = f"turn-{next(_numbers)}"
        if on_started is not None:
            on_started(turn_id)
        for name, arguments in turn.calls:
            await self._spec.tools.call(name, arguments)
        if turn.failure is not None and turn.failure.kind == "rate_limited" and on_limited is not None:
            on_limited(turn.failure.reset_seconds)
        try:
            await asyncio.wait_for(self._stop.wait(), turn.seconds)
        except TimeoutError:
            status = "failed" if turn.failure is not None else "completed"
            known = {"model": turn.model, "cost_usd": turn.cost_usd}
            return TurnResult(self.thread_id, turn_id, status, turn.text, USAGE, turn.failure, turn.refusal, **known)
        stopped = Failure(kind="interrupted", retryable=True, message="interrupted")
        return TurnResult(self.thread_id, turn_id, "interrupted", "", Usage(), stopped, None)

    def interrupt(self) -> None:
        self._stop.set()


_numbers = itertools.count(1)
