"""Helpers of the gateway's tests: a runtime of real app-servers on a model server, and on an endpoint."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.gateway.facts import ServerFacts
from chordesk.agents.runtime import ConversationSpec, TurnResult
from tests.agents.codex.kit import Kit, deadline, run, running, spec, turn
from tests.fakes.local_server import LocalServer, Reply
from tests.fakes.responses import FakeResponses


def facts_of(server: LocalServer, **changes: Any) -> ServerFacts:
    """What is known of a server's model, without asking it."""
    known: dict[str, Any] = {
        "url": server.url, "server": server.kind, "version": server.version, "model": server.model,
        "models": tuple(server.models), "context": server.context, "asked_at": dt.datetime.now(dt.UTC),
    }  # fmt: skip
    return ServerFacts(**known | changes)


@asynccontextmanager
async def local(
    server: LocalServer, home: Path, redis_url: str, /, facts: dict[str, Any] | None = None, **changes: Any
) -> AsyncIterator[CodexRuntime]:
    """A runtime on a model server. facts: beside those that the server has."""
    found = facts_of(server, **(facts or {}))

    async def known(_model: str) -> ServerFacts:
        return found

    options = {"provider": "local", "model": found.model, "facts": known, **changes}
    async with running(server.url, home, redis_url, **options) as runtime:
        yield runtime


@asynccontextmanager
async def endpoint(
    served: FakeResponses | str, home: Path, redis_url: str, /, **changes: Any
) -> AsyncIterator[CodexRuntime]:
    """A runtime on an endpoint of the Responses API."""
    async with running(served, home, redis_url, provider="endpoint", **changes) as runtime:
        yield runtime


def asks(model: str = "small", tools: Kit | None = None, **changes: Any) -> ConversationSpec:
    return spec(tools, model=model, **changes)


class NoTools(Kit):
    def __init__(self) -> None:
        super().__init__()
        self.functions = {}


def asked(
    server: LocalServer, home: Path, registry: str, *replies: Reply, tools: Kit | None = None, **facts: Any
) -> TurnResult:
    """The end of one turn on a server that replies so."""
    found: list[TurnResult] = []
    server.script(*replies)

    async def work() -> None:
        async with (
            local(server, home, registry, facts=facts) as runtime,
            runtime.conversation(asks(tools=tools), deadline()) as conversation,
        ):
            found.append(await turn(conversation))

    run(work())
    return found[0]


Asked = Callable[..., TurnResult]
