"""The translator and the listener where no recorded stream goes: long texts, odd ones, and turns that never began."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from chordesk.agents.codex.event_translation import ConversationListener, translate
from chordesk.agents.codex.threads import OpenedThread
from chordesk.agents.providers.liveness import failure
from chordesk.agents.runtime import Scope
from chordesk.models.events import TEXT_LIMIT, Envelope
from tests.agents.codex.kit import spec
from tests.golden.stage import Collected

SCOPE = Scope("run-1", "step-1", 2, "quick", "ACME")
KEYS = {"threadId": "thread-1", "turnId": "turn-1"}
AT = dt.datetime(2026, 3, 2, 15, 30, tzinfo=dt.UTC)


def item(**fields: Any) -> dict[str, Any]:
    return {**KEYS, "item": {"id": "item-1", **fields}, "startedAtMs": 1_000, "completedAtMs": 2_000}


def one(method: str, params: dict[str, Any], message: str | None = None) -> Envelope:
    (found,) = translate(method, params, SCOPE, AT, message)
    return found


def listening() -> tuple[ConversationListener, Collected]:
    collected, in_run = Collected(), replace(spec(), scope=replace(SCOPE, run_id="run-1"))
    return ConversationListener(collected, in_run, OpenedThread("thread-1", "initial"), "w"), collected


def test_ids_are_texts_whatever_they_were() -> None:
    """An event with another would be stored and never be read again."""
    keys = {"threadId": 1, "turnId": 2}
    collected = {**keys, "item": {"id": 3, "type": "agentMessage", "text": "so"}, "startedAtMs": 1, "completedAtMs": 2}
    found = [
        one("item/completed", collected),
        one("turn/started", {**keys, "turn": {"id": 2}}),
        one("turn/completed", {**keys, "turn": {"id": 2, "status": "completed"}}),
        one("item/tool/call", {**keys, "callId": 4, "tool": "t"}),
    ]
    for envelope in found:
        assert Envelope.model_validate(envelope.model_dump()) == envelope
    assert [(each.thread_id, each.turn_id, each.item_id) for each in found] == [
        ("1", "2", "3"), ("1", "2", None), ("1", "2", None), ("1", "2", "4"),
    ]  # fmt: skip
    listener, seen = listening()
    for method in ("turn/started", "item/started", "item/completed", "turn/completed"):
        listener.notified(method, {**collected, "turn": {"id": 2, "status": "completed"}})
    for life in (*seen.turns, *seen.items):
        assert type(life).model_validate(life.model_dump()) == life


def test_texts_are_cut_and_hold_no_nul() -> None:
    message = one("item/completed", item(type="agentMessage", text="a\x00b" + "x" * 10_000)).payload["text"]
    assert message == "ab" + "x" * (TEXT_LIMIT - 3)
    called = {**KEYS, "callId": "call-1", "tool": "t", "arguments": {"text": "y" * 10_000}}
    assert len(one("item/tool/call", called).payload["arguments"]) == TEXT_LIMIT
    content = [{"type": "inputText", "text": "z" * 10_000}]
    done = item(type="dynamicToolCall", tool="t", status="completed", success=True, contentItems=content)
    assert len(one("item/completed", done).payload["answer"]) == TEXT_LIMIT


def test_a_turn_that_never_began_is_recorded_as_failed() -> None:
    listener, collected = listening()
    listener.opened()
    listener.turn_ended("failed", failure("process_died", "gone"))
    listener.closed()
    assert [(event.type, event.turn_id) for event in collected.envelopes] == [
        ("thread.started", None), ("turn.failed", None), ("thread.closed", None),
    ]  # fmt: skip
    assert collected.envelopes[1].payload == {"role": "quick", "kind": "process_died", "why": "gone"}
    assert collected.turns == []


@pytest.mark.parametrize("details", [None, "again, with sk-live-0123456789abcdef"])
def test_errors_are_reported_without_the_secrets_that_they_quote(details: str | None) -> None:
    message = "unexpected status 401: Incorrect API key: sk-live-0123456789abcdef, url: https://desk:pw12345@host/v1"
    error = {"message": message, "additionalDetails": details, "codexErrorInfo": None}
    collected = one("error", {**KEYS, "willRetry": False, "error": error}).payload
    ended = one("turn/completed", {**KEYS, "turn": {"id": "turn-1", "status": "failed", "error": error}}).payload
    assert "0123456789" not in collected["why"] + ended["why"]
    assert "pw12345" not in collected["why"] + ended["why"]
    assert ended["kind"] == "unauthorized"
