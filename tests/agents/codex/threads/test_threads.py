"""Kept threads: the registry in a real Redis, and what the real app-server does with them."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from chordesk.agents.codex.threads import ThreadRegistry
from chordesk.agents.gateway.facts import ServerFacts
from chordesk.agents.runtime import ThreadRecord
from tests.agents.codex.kit import FINAL, Codex, deadline, one_turn, spec, turn, until
from tests.fakes.responses import Call, FakeResponses, Silence, Text
from tests.patience import PATIENCE

KEY = "desk:thread:quick:ACME"
LEASE = "desk:thread-lease:quick:ACME"
BUSY_SECONDS = 4.0  # half of it a busy thread is waited for; in the other half its fork opens and runs a turn


def record_in(url: str, key: str = KEY) -> ThreadRecord | None:
    client = redis.Redis.from_url(url)
    raw = client.get(key)
    client.close()
    return ThreadRecord.model_validate_json(raw) if isinstance(raw, bytes) else None


def change(url: str, **values: Any) -> None:
    client = redis.Redis.from_url(url)
    record = record_in(url)
    assert record is not None
    client.set(KEY, record.model_copy(update=values).model_dump_json())
    client.close()


def message_texts(model: FakeResponses) -> list[str]:
    """The texts of the last request, the developer's left out."""
    items = model.requests[-1].body["input"]
    return [item["content"][0]["text"] for item in items if item["type"] == "message" and item["role"] != "developer"]


async def test_a_kept_thread_goes_on_in_the_next_conversation_and_after_a_restart(
    model: FakeResponses, codex: Codex, tmp_path: Path, registry: str
) -> None:
    model.script(Text("first"), Text("second"), Text("third"))
    kept = spec(keep=True)
    async with codex() as runtime:
        first = await one_turn(runtime, kept)
        second = await one_turn(runtime, kept)
        assert second.thread_id == first.thread_id
        assert message_texts(model) == ["What of ACME?", "first", "What of ACME?"]
    async with codex() as runtime, runtime.conversation(kept, deadline()) as conversation:
        assert conversation.reason == "resumed"
        third = await turn(conversation)
    assert third.thread_id == first.thread_id
    assert message_texts(model)[:4] == ["What of ACME?", "first", "What of ACME?", "second"]
    assert model.requests[-1].tools == ["quotes_get"]
    record = record_in(registry)
    assert record is not None
    assert (record.turns, record.last_turn_id, record.reason) == (3, third.turn_id, "resumed")
    assert record.binary_version.count(".") == 2
    assert record.mode == "other"
    rollouts = list((tmp_path / "codex" / "w" / "kept" / "sessions").rglob("rollout-*.jsonl"))
    assert [path.name.endswith(f"{first.thread_id}.jsonl") for path in rollouts] == [True]


def of_context(tokens: int | None) -> Callable[[str], Awaitable[ServerFacts]]:
    """Return what tells of a server with so large a context."""

    async def told(model: str) -> ServerFacts:
        asked = dt.datetime(2026, 11, 24, tzinfo=dt.UTC)
        return ServerFacts(url="", server="llama.cpp", version="1", model=model, context=tokens, asked_at=asked)

    return told


@pytest.mark.parametrize(
    ("changed", "settings", "wanted", "reason"),
    [
        ({}, {}, {"toolset_hash": "h2"}, "toolset_changed"),
        ({"model": "gpt-5.6-sol"}, {}, {}, "model_changed"),
        ({"home": "elsewhere"}, {}, {}, "lost"),
        ({"dropped": "manual"}, {}, {}, "manual"),
        ({"login": "0123456789abcdef"}, {}, {}, "account_changed"),
        ({"thread_id": "01a1fa69-6671-7371-a4b4-5f45a71ebfd6"}, {}, {}, "lost"),
        ({"updated_at": 1.0}, {}, {}, "rollover:age"),
        ({}, {"max_thread_turns": 1}, {}, "rollover:turns"),
        ({}, {"thread_tokens": 99}, {}, "rollover:tokens"),
        # The provider gave no figure: its rollout's size stands for it.
        ({"context_tokens": None, "rollout_size": 401}, {"thread_tokens": 99}, {}, "rollover:tokens"),
        # Half of the model's context, where that is known.
        ({"context_tokens": 4_097}, {"facts": of_context(8_192)}, {}, "rollover:tokens"),
    ],
)
async def test_a_kept_thread_starts_afresh_for_each_reason(
    codex: Codex, registry: str, changed: dict[str, Any], settings: dict[str, Any], wanted: dict[str, Any], reason: str
) -> None:
    async with codex(**settings) as runtime:
        first = await one_turn(runtime, spec(keep=True))
        change(registry, **changed)
        before = time.time()
        async with runtime.conversation(spec(keep=True, **wanted), deadline()) as conversation:
            assert conversation.reason == reason
            second = await turn(conversation)
        assert second.thread_id != first.thread_id
        record = record_in(registry)
        assert record is not None
        assert (record.thread_id, record.turns, record.reason) == (second.thread_id, 1, reason)
        assert (record.dropped, record.login) == (None, "")
        assert record.created_at >= before


@pytest.mark.parametrize(
    ("changed", "settings"),
    [
        ({"created_at": 1.0}, {}),
        ({}, {"thread_tokens": 100}),
        ({"context_tokens": 4_096}, {"facts": of_context(8_192)}),
    ],
)
async def test_a_kept_thread_is_resumed_without_a_reason_against_it(
    model: FakeResponses, codex: Codex, registry: str, changed: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Its age counts from its last use, and its tokens are those of its last model call."""
    async with codex(**settings) as runtime:
        model.script(Call("quotes_get"), Text(FINAL))
        first = await one_turn(runtime, spec(keep=True))
        record = record_in(registry)
        assert record is not None
        assert (record.context_tokens, first.usage.input_tokens) == (100, 200)
        change(registry, **changed)
        async with runtime.conversation(spec(keep=True), deadline()) as conversation:
            assert conversation.reason == "resumed"


async def test_a_thread_that_comes_free_in_time_is_waited_for(
    model: FakeResponses, codex: Codex, registry: str
) -> None:
    model.script(Silence(1))
    async with codex() as runtime:
        long = asyncio.create_task(one_turn(runtime, spec(keep=True)))
        await until(lambda: len(model.requests) == 1)
        second = await one_turn(runtime, spec(keep=True), seconds=20)
        first = await long
        assert second.thread_id == first.thread_id
    client = redis.Redis.from_url(registry)
    assert client.exists(LEASE) == 0, "the lease was not given back"
    client.close()


async def test_a_lease_is_renewed_and_seen_to_be_lost(registry: str) -> None:
    client = redis.asyncio.Redis.from_url(registry)
    threads = ThreadRegistry(client, 2.0)
    async with threads.hold("quick", "ACME", lambda: 0) as lease:
        assert lease.held
        left = before = await client.pttl(LEASE)
        async with asyncio.timeout(PATIENCE):
            while left <= before:
                await asyncio.sleep(0.02)
                before, left = left, await client.pttl(LEASE)
        assert not lease.lost
        async with threads.hold("quick", "ACME", lambda: 0) as other:
            assert not other.held
        await client.delete(LEASE)
        await until(lambda: lease.lost)
    await client.aclose()


def a_record(**values: Any) -> ThreadRecord:
    defaults = {
        "thread_id": "t",
        "turns": 1,
        "last_turn_id": None,
        "created_at": 1.0,
        "updated_at": 1.0,
        "reason": "initial",
    }
    return ThreadRecord(**{**defaults, "toolset_hash": "h", "binary_version": "1", "home": "x", "model": "m", **values})


async def test_each_lease_has_a_greater_token_and_each_change_a_greater_generation(registry: str) -> None:
    client = redis.asyncio.Redis.from_url(registry)
    threads = ThreadRegistry(client, 20)
    tokens = []
    for number in range(1, 4):
        async with threads.hold("quick", "ACME", lambda: 0) as lease:
            assert lease.generation == number - 1
            assert await lease.save(a_record(turns=number))
            tokens.append(lease.token)
        record = record_in(registry)
        assert record is not None
        assert (record.generation, record.token) == (number, lease.token)
    assert tokens == sorted(set(tokens))
    await client.delete("desk:thread-token")  # a counter that was lost may not begin again below what is written
    async with threads.hold("quick", "ACME", lambda: 0) as lease:
        assert lease.token > tokens[-1]
        assert await lease.save(a_record())
    await client.aclose()


@pytest.mark.parametrize("ahead", [{"generation": 9}, {"token": 2**52}])
async def test_a_record_that_moved_on_is_not_written_over(registry: str, ahead: dict[str, int]) -> None:
    client = redis.asyncio.Redis.from_url(registry)
    async with ThreadRegistry(client, 20).hold("quick", "ACME", lambda: 0) as lease:
        assert await lease.save(a_record())
        change(registry, **ahead)
        before = record_in(registry)
        assert not await lease.save(a_record(turns=2))
        assert record_in(registry) == before
    await client.aclose()


async def test_a_holder_that_lost_the_lease_cannot_drop_the_record(registry: str) -> None:
    client = redis.asyncio.Redis.from_url(registry)
    async with ThreadRegistry(client, 20).hold("quick", "ACME", lambda: 0) as lease:
        assert await lease.save(a_record())
        await client.set(LEASE, "another")
        assert not await lease.forget()
        assert record_in(registry) is not None
    assert await client.get(LEASE) == b"another"
    await client.aclose()


async def test_the_registry_lists_its_records(registry: str) -> None:
    client = redis.asyncio.Redis.from_url(registry)
    threads = ThreadRegistry(client, 20)
    assert await threads.records() == []
    for place, subject in enumerate(("endpoint@http://h:1/v1/live/paper/A", "B")):
        async with threads.hold("risk", subject, lambda: 0) as lease:
            await lease.save(a_record(thread_id=subject[-1], updated_at=float(place)))
    await client.set("desk:thread:risk:C", "{}")
    async with threads.hold("risk", "B", lambda: 0):
        found = await threads.records()
    assert [(one.role, one.subject, one.record.thread_id, one.busy) for one in found] == [
        ("risk", "B", "B", True),
        ("risk", "endpoint@http://h:1/v1/live/paper/A", "A", False),
    ]
    await client.aclose()
