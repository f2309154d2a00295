"""Helpers of the LiteLLM runtime's tests: a runtime on loopback models of two dialects, and what it recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import fields
from typing import Any

import pytest

from chordesk.agents.litellm.library import LitellmConfig
from chordesk.agents.litellm.runtime import LitellmRuntime
from chordesk.agents.providers.liveness import TurnLimits
from chordesk.agents.runtime import ConversationSpec, Scope, TurnResult
from tests.agents.codex.kit import METADATA, SCHEMA, Kit, deadline
from tests.agents.codex.kit import spec as any_spec
from tests.agents.observed import Seen
from tests.fakes.chat import FakeChat
from tests.fakes.local_server import LocalServer
from tests.patience import PATIENCE

OPENAI, ANTHROPIC = "openai/gpt-5.5", "anthropic/claude-sonnet-4-5"
DIALECTS = (OPENAI, ANTHROPIC)
LOCAL = "openai/small"
KEY = "sk-desk-0123456789abcdef"


@contextmanager
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeChat]:
    """A model on loopback, at the addresses and with the keys of the providers' own variables."""
    with FakeChat() as model:
        point_at(monkeypatch, model)
        yield model


def point_at(monkeypatch: pytest.MonkeyPatch, model: FakeChat | LocalServer) -> None:
    for name, value in environment(model.url).items():
        monkeypatch.setenv(name, value)


def environment(url: str) -> dict[str, str]:
    """Return the providers' own variables for a stand-in with this base URL of chat completions."""
    return {
        "OPENAI_API_BASE": url,
        "OPENAI_BASE_URL": url,
        "ANTHROPIC_API_BASE": url.removesuffix("/v1"),
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY,
    }


def spec(tools: Kit | None = None, model: str = OPENAI, **changes: Any) -> ConversationSpec:
    found = any_spec(tools, model=model, keep=changes.pop("keep", False))
    values = {name: getattr(found, name) for name in ConversationSpec.__slots__}
    return ConversationSpec(**{**values, "scope": Scope("run-1", "step-1", 2, "quick", "ACME"), **changes})


@asynccontextmanager
async def running(observer: Seen | None = None, grace: float = 5.0, **changes: Any) -> AsyncIterator[LitellmRuntime]:
    """A runtime. changes: of its configuration, and of the limits in it, which are patient ones."""
    values = {"worker": "w", **changes}
    own = {one.name: values.pop(one.name) for one in fields(TurnLimits) if one.name in values}
    patient = dict.fromkeys(("turn_seconds", "first_token_seconds", "silence_seconds"), PATIENCE)
    runtime = LitellmRuntime(LitellmConfig(**values, limits=TurnLimits(**{**patient, **own})), observer=observer)
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.close(grace)


async def one_turn(runtime: LitellmRuntime, wanted: ConversationSpec, text: str = "What of ACME?") -> TurnResult:
    async with runtime.conversation(wanted, deadline()) as conversation:
        return await conversation.turn(text, SCHEMA, METADATA)
