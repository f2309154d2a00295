"""A kept thread that is too large, or that somebody holds who is gone, costs no other conversation anything."""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from chordesk.agents.codex.rollouts import ThreadVault
from chordesk.agents.codex.runtime import CodexRuntime
from tests.agents.codex.kit import Codex, one_turn, spec
from tests.agents.codex.threads.test_threads import LEASE
from tests.agents.codex.threads.vaults import database_in, vault_over
from tests.fakes.responses import FakeResponses, Text
from tests.patience import PATIENCE

MB = 2**20


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[ThreadVault]:
    with vault_over(database_in(tmp_path)) as made:
        yield made


@pytest.fixture(autouse=True)
def answering(model: FakeResponses) -> None:
    model.policy = lambda body: Text("fine")


async def others(runtime: CodexRuntime, over: asyncio.Event) -> list[str]:
    """Run turns of other threads, kept and not, until the event, and return how they ended."""
    ends: list[str] = []
    while not over.is_set() or not ends:
        for keep in (True, False):
            ends.append((await one_turn(runtime, spec(subject="OTHER", keep=keep))).status)
    return ends


def grow(rollouts: Path) -> None:
    """Add 128 MB of answers to the one rollout there is."""
    (path,) = rollouts.rglob("rollout-*.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    answer = [row for row in rows if row["payload"].get("role") == "assistant"][-1]
    answer["payload"]["content"][0]["text"] = "x" * MB
    with path.open("a", encoding="utf-8") as file:
        for _ in range(128):
            file.write(json.dumps(answer) + "\n")


@pytest.mark.long
async def test_a_rollout_of_128_mb_ends_no_other_conversation(codex: Codex, tmp_path: Path, vault: ThreadVault) -> None:
    async with codex(vault=vault) as runtime:
        over = asyncio.Event()
        async with runtime.conversation(spec(keep=True), asyncio.get_running_loop().time() + PATIENCE) as conversation:
            await conversation.turn("first", {}, {})
            grow(tmp_path)
            await conversation.turn("large", {}, {})  # kept, with all of it
        beside = asyncio.create_task(others(runtime, over))
        again = await one_turn(runtime, spec(keep=True))
        over.set()
        ends = await beside
    assert again.status in ("completed", "failed")
    assert set(ends) == {"completed"}


@contextmanager
def written(tmp_path: Path, thread_id: str) -> Iterator[None]:
    """While the block runs, the thread's file has a writer, as an app-server that nobody ended."""
    (locks,) = tmp_path.rglob("kept/thread-writer-locks")
    with (locks / f"{thread_id}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("holds", ["lease", "file"])
async def test_a_thread_whose_holder_is_gone_is_forked_and_others_do_not_wait(
    codex: Codex, registry: str, tmp_path: Path, holds: str
) -> None:
    async with codex() as runtime:
        first = await one_turn(runtime, spec(keep=True))
    over = asyncio.Event()
    async with AsyncExitStack() as stack:
        if holds == "lease":
            with redis.Redis.from_url(registry) as client:
                client.set(LEASE, "1:nobody", px=3_600_000)  # never renewed, never given back
        else:
            stack.enter_context(written(tmp_path, first.thread_id))
        runtime = await stack.enter_async_context(codex())
        beside = asyncio.create_task(others(runtime, over))
        held = await one_turn(runtime, spec(keep=True), 4.0 if holds == "lease" else PATIENCE)
        over.set()
        ends = await beside
    assert held.status == "completed"
    assert held.thread_id != first.thread_id
    assert set(ends) == {"completed"}
