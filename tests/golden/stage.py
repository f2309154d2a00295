"""One app-server with conversations in it, and all that is recorded of them: the real one or a recorded one."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import codex_cli_bin

from chordesk.agents.codex.launch import RuntimeConfig, prepare
from chordesk.agents.codex.runtime import Around, CodexConversation
from chordesk.agents.codex.servers import AppServer
from chordesk.agents.codex.threads import OpenedThread, unsubscribe
from chordesk.agents.providers.liveness import TurnLimits
from chordesk.agents.runtime import (
    ApprovalDecision,
    ApprovalRequest,
    ConversationSpec,
    ConversationState,
    Lifecycle,
    Scope,
    TurnResult,
)
from chordesk.models.events import Envelope, ItemLifecycle, TurnLifecycle
from tests.agents.codex.kit import METADATA, SCHEMA
from tests.golden import wire

SCOPE = Scope(run_id="run-1", step_id="step-1", attempt=2, role="quick", subject="ACME")


class Collected:
    """Observer that keeps what it is given."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.turns: list[TurnLifecycle] = []
        self.items: list[ItemLifecycle] = []
        self.conversations: list[ConversationState] = []

    def record(self, scope: Scope, events: Sequence[Envelope], lifecycles: Sequence[Lifecycle] = ()) -> None:
        self.envelopes += events
        for one in lifecycles:
            if isinstance(one, ConversationState):
                self.conversations.append(one)
            elif isinstance(one, TurnLifecycle):
                self.turns.append(one)
            else:
                self.items.append(one)


class Person:
    """Person that always gives the same decision."""

    def __init__(self) -> None:
        self.decision = ApprovalDecision(approved=True)
        self.asked: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest, scope: Scope, seconds: float) -> ApprovalDecision:
        assert scope == SCOPE
        assert 0 < seconds <= 60
        self.asked.append(request)
        return self.decision


class Stage:
    def __init__(self, server: AppServer, config: RuntimeConfig) -> None:
        self.server, self._config = server, config
        self.observed, self.person = Collected(), Person()
        self.results: list[TurnResult] = []
        self.on_started: Callable[[str], None] | None = None

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, opened: OpenedThread) -> AsyncIterator[CodexConversation]:
        """A conversation as the runtime makes one."""
        deadline = asyncio.get_running_loop().time() + 60
        around = Around(self._config, self.observed, self.person)
        conversation = CodexConversation(self.server, spec, opened, deadline, around)
        conversation.listener.opened()
        yield conversation
        conversation.listener.closed()
        unsubscribe(self.server, opened.thread_id)

    async def turn(self, conversation: CodexConversation, text: str = "What of ACME?") -> TurnResult:
        self.results.append(await conversation.turn(text, SCHEMA, METADATA, self.on_started))
        return self.results[-1]

    def summary(self) -> dict[str, Any]:
        """All that came of it but ids of our own, times and the process's number."""
        seen = {
            "results": [_plain(asdict(result)) for result in self.results],
            "events": [comparable(one) for one in self.observed.envelopes],
            "turns": [one.model_dump(mode="json", exclude=_TIMES) for one in self.observed.turns],
            "items": [one.model_dump(mode="json", exclude=_TIMES) for one in self.observed.items],
            "conversations": [_conversation(one) for one in self.observed.conversations],
            "asked": [asdict(request) for request in self.person.asked],
        }
        named: dict[str, Any] = json.loads(json.dumps(seen).replace(f"app-server {self.server.pid} ", "app-server "))
        return named


_TIMES = {"started_at", "ended_at"}


def comparable(envelope: Envelope) -> dict[str, Any]:
    return envelope.model_dump(mode="json", exclude={"event_id", "occurred_at"})


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    result["rogue"] = [[call.tool, call.arguments] for call in result["rogue"]]
    return {key: value.model_dump() if hasattr(value, "model_dump") else value for key, value in result.items()}


def _conversation(seen: ConversationState) -> dict[str, Any]:
    assert seen.scope == SCOPE
    return {
        **seen.ref.model_dump(mode="json"),
        "reason": seen.reason,
        "kept": seen.kept,
        "closed": seen.closed_at is not None,
    }


@asynccontextmanager
async def stage(mode: str, stream: Path, folder: Path, url: str, **changes: Any) -> AsyncIterator[Stage]:
    """mode: `record` or `play`, see `wire`. folder must not be below the temporary one: the binary minds."""
    real = str(codex_cli_bin.bundled_codex_path())
    binary = folder / "codex.sh"
    command = [sys.executable, "-S", str(Path(wire.__file__)), mode, real, str(stream)]
    binary.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
    binary.chmod(0o700)
    config = RuntimeConfig(
        home=folder, worker="w", provider="rulebook", model="gpt-5.5", provider_url=url, binary=binary,
        limits=TurnLimits(turn_seconds=30, first_token_seconds=20, silence_seconds=20), **changes,
    )  # fmt: skip
    launch = await prepare(config)
    home = folder / "home"
    home.mkdir()
    server = AppServer("kept", launch, home, config)
    await server.start()
    try:
        yield Stage(server, config)
    finally:
        await server.stop()
