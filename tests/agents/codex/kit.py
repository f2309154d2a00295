"""Helpers of the runtime's tests: a toolset of given functions, and a runtime on a loopback model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import redis.asyncio

from chordesk.agents.codex.launch import RuntimeConfig
from chordesk.agents.codex.rollouts import ThreadVault
from chordesk.agents.codex.runtime import CodexConversation, CodexRuntime
from chordesk.agents.providers.liveness import TurnLimits
from chordesk.agents.runtime import ApprovalRequest, Asker, ConversationSpec, Observer, Opening, TurnResult
from chordesk.models.quotas import Quota
from chordesk.models.states import Mode
from chordesk.tools.registry import Arguments, ToolAnswer, ToolSpec, failed
from tests.fakes.responses import FakeResponses
from tests.patience import PATIENCE

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
METADATA = {"step_id": "step-1", "attempt": "2", "run_id": "run-1", "role": "quick"}
FINAL = '{"ok":true}'

Function = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


class Symbols(Arguments):
    symbols: list[str]


async def echo(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"echo": dict(arguments)}


class Kit:
    """A toolset made of plain async functions; keeps the calls it got. seconds: of each call."""

    seconds = PATIENCE

    def __init__(self, **functions: Function) -> None:
        self.functions = functions or {"quotes_get": echo}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.rogue: list[tuple[str, Any]] = []

    def specs(self) -> Sequence[ToolSpec]:
        return [ToolSpec(name, f"The tool {name}.", Symbols, lambda _context, _args: {}) for name in self.functions]

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        if name not in self.functions or not isinstance(arguments, Mapping):
            self.rogue.append((name, arguments))
            return failed(name, f"no call of a tool: {name}")
        self.calls.append((name, dict(arguments)))
        try:
            payload = await asyncio.wait_for(self.functions[name](arguments), self.seconds)
        except TimeoutError:
            return failed(name, f"{name} did not answer")
        return ToolAnswer(name, True, payload, True, True, 0.0)


def spec(
    tools: Kit | None = None,
    *,
    keep: bool = False,
    subject: str = "ACME",
    toolset_hash: str = "h1",
    model: str = "gpt-5.5",
    opening: Opening = "same",
    mode: Mode = "other",
) -> ConversationSpec:
    return ConversationSpec(
        role="quick", subject=subject, keep=keep, base_instructions="Role: quick\nBe brief.", tools=tools or Kit(),
        model=model, toolset_hash=toolset_hash, opening=opening, mode=mode,
    )  # fmt: skip


def ignore(request: ApprovalRequest, why: str) -> None:
    """A listener to declined requests that does nothing."""


def run(work: Coroutine[Any, Any, None], seconds: float = PATIENCE) -> None:
    asyncio.run(asyncio.wait_for(work, seconds))


def deadline(seconds: float = PATIENCE) -> float:
    return asyncio.get_running_loop().time() + seconds


def config(served: FakeResponses | str, home: Path, /, **changes: Any) -> RuntimeConfig:
    url = served if isinstance(served, str) else served.url
    values: dict[str, Any] = {
        "home": home, "worker": "w", "provider": "rulebook", "model": "gpt-5.5", "provider_url": url,
        "lease_seconds": 20.0, "rpc_seconds": PATIENCE, "thread_answers": None,
    }  # fmt: skip
    limits = {name: changes.pop(name) for name in list(changes) if name in TurnLimits.__dataclass_fields__}
    patient = TurnLimits(PATIENCE, PATIENCE, PATIENCE)
    return RuntimeConfig(**{**values, "limits": replace(patient, **limits), **changes})


@asynccontextmanager
async def running(
    served: FakeResponses | str, home: Path, redis_url: str, /, grace: float = 5.0, vault: ThreadVault | None = None,
    observer: Observer | None = None, asker: Asker | None = None,
    on_quota: Callable[[Quota], None] | None = None, **changes: Any,
) -> AsyncIterator[CodexRuntime]:  # fmt: skip
    client = redis.asyncio.Redis.from_url(redis_url)
    runtime = CodexRuntime(
        config(served, home, **changes), client, vault=vault, observer=observer, asker=asker, on_quota=on_quota
    )
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.close(grace)
        await client.aclose()


Codex = Callable[..., AbstractAsyncContextManager[CodexRuntime]]


async def turn(conversation: CodexConversation, text: str = "What of ACME?") -> TurnResult:
    return await conversation.turn(text, SCHEMA, METADATA)


async def one_turn(runtime: CodexRuntime, wanted: ConversationSpec, seconds: float = PATIENCE) -> TurnResult:
    async with runtime.conversation(wanted, deadline(seconds)) as conversation:
        return await turn(conversation)


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Waits for a condition; fails when it does not come true in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
