"""Kept threads that go from one worker to another: homes of their own, one Redis, one vault, the real app-server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import redis

from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.runtime import ThreadRecord
from tests.agents.codex.kit import FINAL, Kit, deadline, one_turn, spec, turn, until
from tests.agents.codex.threads.test_threads import KEY, LEASE, message_texts, record_in
from tests.agents.codex.threads.vaults import Fleet, copies, database_in, kept_threads
from tests.fakes.responses import Call, Failing, FakeResponses, Silence, Text

KEPT = spec(keep=True)


@pytest.fixture(autouse=True)
def database(tmp_path: Path) -> str:
    return database_in(tmp_path)


async def ask(runtime: CodexRuntime, text: str, **wanted: Any) -> tuple[str, str]:
    """(reason, thread) of a conversation with one turn."""
    async with runtime.conversation(spec(keep=True, **wanted), deadline()) as conversation:
        assert (await turn(conversation, text)).status == "completed"
        return conversation.reason, conversation.thread_id


def record(url: str) -> ThreadRecord:
    found = record_in(url)
    assert found is not None
    return found


def lose_lease(url: str) -> None:
    client = redis.Redis.from_url(url)
    assert client.delete(LEASE) == 1
    client.close()


def rollout(home: Path, url: str) -> Path:
    """Where a worker's home has, or would have, the recorded thread's rollout."""
    return home / "codex" / home.name / "kept" / str(record(url).rollout_path)


def history(turns: int) -> list[str]:
    """Return the texts that the model must be sent in the turn of that number, from 1."""
    return [text for number in range(1, turns) for text in (f"question {number}", f"answer {number}")] + [
        f"question {turns}"
    ]


def numbered(model: FakeResponses) -> None:
    """Have the model answer the n-th request with `answer n`."""
    model.policy = lambda _body: Text(f"answer {len(model.requests)}")


async def test_a_thread_roams_by_a_folder_too(
    model: FakeResponses, tmp_path: Path, registry: str, database: str, fleet: Fleet
) -> None:
    numbered(model)
    folder = (tmp_path / "blobs").as_uri()
    async with fleet("a", "b", blob_url=folder) as runtimes:
        for number in range(1, 4):
            await ask(runtimes[number % 2], f"question {number}")
            assert message_texts(model) == history(number)
    digests = [copy.digest for copy in copies(database, record(registry).thread_id)]
    assert sorted(path.name for path in (tmp_path / "blobs").rglob("*") if path.is_file()) == sorted(digests)


def flush(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushall()


async def test_a_redis_that_forgets_between_two_turns_costs_no_thread(
    model: FakeResponses, registry: str, database: str, fleet: Fleet
) -> None:
    numbered(model)
    async with fleet("a", "b") as runtimes:
        _, thread = await ask(runtimes[0], "question 1")
        for number in range(2, 5):
            flush(registry)
            assert await ask(runtimes[number % 2], f"question {number}") == ("resumed", thread)
            assert message_texts(model) == history(number)
        kept = copies(database, thread)
        assert [copy.generation for copy in kept] == [1, 2, 3, 4]
        assert [copy.token for copy in kept] == sorted({copy.token for copy in kept}), "fencing tokens must grow"


async def test_a_flush_within_a_turn_costs_that_turn_alone(model: FakeResponses, registry: str, fleet: Fleet) -> None:
    async with fleet("a", "b") as (first, second):
        _, thread = await ask(first, "question 1")
        async with first.conversation(KEPT, deadline()) as conversation:
            flush(registry)
            assert await ask(second, "question 2") == ("resumed", thread)
            await turn(conversation, "late")
        assert await ask(first, "question 3") == ("resumed", thread)
        assert [text for text in message_texts(model) if text != FINAL] == ["question 1", "question 2", "question 3"]


async def test_a_full_thread_stays_dropped_by_a_redis_that_forgets(
    model: FakeResponses, registry: str, fleet: Fleet
) -> None:
    model.script(Text("first"), Failing("context_length_exceeded"))
    async with fleet("a") as (first,):
        _, thread = await ask(first, "question 1")
        await one_turn(first, KEPT)
        flush(registry)
        reason, fresh = await ask(first, "question 2")
        assert (reason, fresh == thread) == ("rollover:tokens", False)


async def test_an_interrupted_turn_goes_along(model: FakeResponses, registry: str, fleet: Fleet) -> None:
    model.script(Text("first"), Silence(30), Text("third"))
    async with fleet("a", "b") as (first, second):
        await ask(first, "question 1")
        completed = record(registry).last_turn_id
        async with first.conversation(KEPT, deadline()) as conversation:
            going = asyncio.create_task(turn(conversation, "interrupted"))
            await until(lambda: len(model.requests) == 2)
            conversation.interrupt()
            assert (await going).status == "interrupted"
        now = record(registry)
        assert (now.generation, now.turns, now.last_turn_id, len(now.turn_ids)) == (2, 2, completed, 2)
        assert (await ask(second, "question 2"))[0] == "resumed"
        texts = message_texts(model)
        assert texts[:3] == ["question 1", "first", "interrupted"]
        assert texts[-1] == "question 2"


async def test_a_turn_that_ended_with_its_process_is_not_kept(
    model: FakeResponses, registry: str, fleet: Fleet
) -> None:
    model.script(Text("answer 1"), Silence(30), Text("answer 2"))
    async with fleet("a") as (first,):
        await ask(first, "question 1")
        going = asyncio.create_task(one_turn(first, KEPT))
        await until(lambda: len(model.requests) == 2)
        [server] = first._pools["kept"].processes
        await server.client.kill()
        assert (await going).status == "failed"
        assert record(registry).turns == 1
        assert (await ask(first, "question 2"))[0] == "resumed"
        assert message_texts(model) == history(2)


async def test_a_thread_busy_elsewhere_is_forked_from_its_copy(
    model: FakeResponses, tmp_path: Path, registry: str, database: str, fleet: Fleet
) -> None:
    gate = asyncio.Event()

    async def held(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        await gate.wait()
        return {}

    model.script(Text("first"), Text("second"), Call("held"), Text("forked"), Text("third"))
    kept = spec(Kit(held=held), keep=True)
    async with fleet("a", "b") as (first, second):
        await one_turn(second, kept)  # so that b has a file of it, an old one soon
        await one_turn(first, kept)
        long = asyncio.create_task(one_turn(first, kept))
        await until(lambda: len(model.requests) == 3)
        async with second.conversation(kept, deadline(4)) as conversation:
            assert conversation.reason == "forked:busy"
            await turn(conversation, "And now?")
        assert message_texts(model) == ["What of ACME?", "first", "What of ACME?", "second", "And now?"]
        assert model.requests[-1].tools == ["held"]
        gate.set()
        assert (await long).status == "completed"
        # Its row has its parent; no later turn continues it, so no copy of it is kept.
        parent, aside = kept_threads(database)
        assert (parent.thread_id, aside.thread_id) == (record(registry).thread_id, conversation.thread_id)
        assert (aside.parent_id, aside.reason, aside.subject) == (parent.thread_id, "forked:busy", parent.subject)
        assert copies(database, aside.thread_id) == []
    assert list((tmp_path / "b" / "codex" / "b" / "scratch").iterdir()) == []


async def test_a_fork_that_takes_a_threads_place_keeps_its_lineage(
    model: FakeResponses, registry: str, database: str, fleet: Fleet
) -> None:
    async with fleet("a", "b") as (first, second):
        _, parent = await ask(first, "question 1")
        async with second.conversation(spec(keep=True, opening="fork"), deadline()) as conversation:
            assert conversation.reason == "forked:retry"
            await turn(conversation, "question 2")
        assert message_texts(model) == ["question 1", FINAL, "question 2"]
        now = record(registry)
        assert (now.thread_id, now.turns, now.generation) == (conversation.thread_id, 2, 2)
        assert [(one.thread_id, one.parent_id) for one in kept_threads(database)] == [
            (parent, None), (now.thread_id, parent),
        ]  # fmt: skip
        assert await ask(first, "question 3") == ("resumed", now.thread_id)


async def test_a_record_with_a_path_that_leads_elsewhere_is_not_read(registry: str, fleet: Fleet) -> None:
    path = "sessions/2026/01/02/../../x/rollout-1.jsonl"
    async with fleet("a") as (first,):
        await ask(first, "question 1")
        client = redis.Redis.from_url(registry)
        raw = record(registry).model_copy(update={"rollout_path": path}).model_dump_json()
        client.set(KEY, raw)
        client.close()
        assert (await ask(first, "question 2"))[0] == "initial"
        # The next generation follows what was there, though it could not be read.
        assert record(registry).generation == 2
