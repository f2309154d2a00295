"""The translator and the listener where no recorded stream goes: long texts, odd ones, and turns that never began."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import orjson
import pytest

from chordesk.agents.codex.events import ConversationListener, translate
from chordesk.agents.codex.threads import OpenedThread
from chordesk.agents.pulse import failure
from chordesk.agents.runtime import Scope
from chordesk.models.events import TEXT_LIMIT, Envelope, LifecycleStatus
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


def test_notifications_without_meaning_for_a_run_become_no_event() -> None:
    assert translate("thread/status/changed", KEYS, SCOPE, AT) == []
    assert translate("never/heard/of", {}, SCOPE, AT) == []


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


@pytest.mark.parametrize("method", ["item/agentMessage/delta", "item/reasoning/summaryTextDelta"])
def test_a_long_delta_is_reported_whole_in_pieces(method: str) -> None:
    text = "".join(map(str, range(400)))
    pieces = translate(method, {**KEYS, "itemId": "item-1", "delta": text}, SCOPE, AT)
    assert len(pieces) == 3
    assert "".join(piece.payload["text"] for piece in pieces) == text


@pytest.mark.parametrize(
    ("fields", "collected"),
    [
        ({"type": "reasoning", "summary": ["one", "two"]}, {"type": "reasoning", "text": "one\ntwo"}),
        (
            {"type": "webSearch", "query": "ACME", "action": {"type": "search", "queries": ["ACME", "x" * 900]}},
            {"type": "webSearch", "query": "ACME", "action": "search", "queries": ["ACME", "x" * 500], "url": None},
        ),
        (
            {"type": "webSearch", "query": "", "action": {"type": "openPage", "url": "https://a.example/"}},
            {"type": "webSearch", "query": "", "action": "openPage", "queries": [], "url": "https://a.example/"},
        ),
        (
            {"type": "webSearch", "query": "ACME", "action": None},
            {"type": "webSearch", "query": "ACME", "action": None, "queries": [], "url": None},
        ),
        ({"type": "contextCompaction"}, {"type": "contextCompaction"}),
    ],
)
def test_an_item_is_reported_by_its_type(fields: dict[str, Any], collected: dict[str, Any]) -> None:
    assert one("item/completed", item(**fields)).payload == collected


def test_every_payload_is_json_and_small() -> None:
    huge = [{"path": "p" * 5_000, "kind": {"type": "add"}, "diff": "d" * 50_000}] * 100
    for fields in (
        {"type": "fileChange", "changes": huge, "status": "completed"},
        {"type": "commandExecution", "command": "c" * 50_000, "status": "completed", "exitCode": 0},
    ):
        assert len(orjson.dumps(one("item/completed", item(**fields)).payload)) < 6_000


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


def test_a_turn_that_is_given_up_ends_its_items_and_is_reported_once() -> None:
    listener, collected = listening()
    listener.opened()
    for _ in range(2):
        listener.notified("turn/started", {"threadId": "thread-1", "turn": {"id": "turn-1"}})
        listener.notified("item/started", item(type="commandExecution", command="c", status="inProgress"))
        listener.turn_ended("interrupted", None)
    assert [event.type for event in collected.envelopes if event.domain == "turn"] == [
        "turn.started",
        "turn.interrupted",
    ] * 2
    assert [one.status for one in collected.items] == [LifecycleStatus.IN_PROGRESS, LifecycleStatus.INTERRUPTED] * 2
    assert [one.status for one in collected.turns] == [LifecycleStatus.IN_PROGRESS, LifecycleStatus.INTERRUPTED] * 2
    assert [seen.ref.active_turn_id for seen in collected.conversations] == [None, "turn-1", None, "turn-1", None]
    for lifecycle in (*collected.turns[1::2], *collected.items[1::2]):
        assert lifecycle.ended_at is not None
        assert lifecycle.started_at <= lifecycle.ended_at


@pytest.mark.parametrize("details", [None, "again, with sk-live-0123456789abcdef"])
def test_errors_are_reported_without_the_secrets_that_they_quote(details: str | None) -> None:
    message = "unexpected status 401: Incorrect API key: sk-live-0123456789abcdef, url: https://desk:pw12345@host/v1"
    error = {"message": message, "additionalDetails": details, "codexErrorInfo": None}
    collected = one("error", {**KEYS, "willRetry": False, "error": error}).payload
    ended = one("turn/completed", {**KEYS, "turn": {"id": "turn-1", "status": "failed", "error": error}}).payload
    assert "0123456789" not in collected["why"] + ended["why"]
    assert "pw12345" not in collected["why"] + ended["why"]
    assert ended["kind"] == "unauthorized"
