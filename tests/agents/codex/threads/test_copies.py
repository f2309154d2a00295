"""The copies of kept threads: a stale one is never gone on with, and only one that is gone ends its thread."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from sqlmodel import delete
from structlog.testing import capture_logs

from chordesk.agents.codex import threads
from chordesk.agents.codex.rollouts import digest_of
from chordesk.models.database.blobs import pack
from chordesk.models.database.store import Store
from chordesk.models.errors import BlobsDown, ServiceError
from chordesk.models.tables.runtime import Blob
from tests.agents.codex.kit import FINAL, deadline, spec, turn
from tests.agents.codex.threads.test_roaming import KEPT, ask, history, lose_lease, numbered, record, rollout
from tests.agents.codex.threads.test_threads import message_texts
from tests.agents.codex.threads.vaults import Fleet, database_in
from tests.fakes.responses import FakeResponses
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def database(tmp_path: Path) -> str:
    return database_in(tmp_path)


@pytest.mark.parametrize("ends", [True, False], ids=["until it ends", "in vain"])
async def test_a_thread_still_in_memory_with_an_older_history_is_waited_for_or_left(
    model: FakeResponses, registry: str, monkeypatch: pytest.MonkeyPatch, ends: bool, fleet: Fleet
) -> None:
    """A worker that was paused until its lease ran out has its conversation open when another worker has gone on."""
    monkeypatch.setattr(threads, "UNLOAD_SECONDS", 30.0 if ends else 0.2)
    numbered(model)
    async with fleet("a", "b") as (first, second):
        async with AsyncExitStack() as old:
            conversation = await old.enter_async_context(first.conversation(KEPT, deadline()))
            await turn(conversation, "question 1")
            lose_lease(registry)
            await ask(second, "question 2")
            again = asyncio.create_task(ask(first, "question 3"))
            await asyncio.wait([again], timeout=1 if ends else PATIENCE)
            assert again.done() == (not ends)
        reason, thread = await again
        assert (reason, thread == conversation.thread_id) == (("resumed", True) if ends else ("forked:busy", False))
        assert message_texts(model) == history(3)


async def test_a_stale_rollout_is_refused(model: FakeResponses, tmp_path: Path, registry: str, fleet: Fleet) -> None:
    """A home with the file of an older generation, or of another thread, gets the right one before it goes on."""
    numbered(model)
    async with fleet("a", "b") as (first, second):
        await ask(first, "question 1")
        file = rollout(tmp_path / "a", registry)
        old = file.read_bytes()
        await ask(first, "question 2")
        await ask(second, "question 3")
        assert digest_of(file.read_bytes()) != record(registry).rollout_digest
    for stale in (old, b'{"not":"a rollout"}\n', b""):
        async with fleet("a") as (first,):
            file.write_bytes(stale)
            number = record(registry).turns + 1
            reason, _ = await ask(first, f"question {number}")
            assert reason == "resumed"
            assert message_texts(model) == history(number)


@pytest.mark.parametrize("garbled", ["gone", "garbled", "an older copy"])
async def test_a_stale_rollout_is_refused_though_there_is_no_other(
    model: FakeResponses, tmp_path: Path, registry: str, database: str, garbled: str, fleet: Fleet
) -> None:
    async with fleet("a", "b") as (first, second):
        _, thread = await ask(first, "question 1")
        stale = rollout(tmp_path / "a", registry).read_bytes()
        await ask(second, "question 2")
        digest = str(record(registry).rollout_digest)
        store = Store(database)
        with store.session() as session:
            if garbled == "gone":
                session.execute(delete(Blob).where(Blob.digest == digest))
            else:
                blob = session.get_one(Blob, digest)
                blob.data = b"no zlib" if garbled == "garbled" else pack(stale)
        store.close()
        reason, fresh = await ask(first, "question 3")
        assert (reason, fresh == thread) == ("lost", False)
        assert message_texts(model) == ["question 3"]
        now = record(registry)
        assert (now.thread_id, now.reason, now.turns, now.generation) == (fresh, "lost", 1, 3)


async def test_a_copy_that_the_vault_refuses_is_not_recorded(
    model: FakeResponses, tmp_path: Path, registry: str, fleet: Fleet
) -> None:
    """The turn's answer is not lost; the thread goes on from the copy before it, at home and elsewhere."""
    blobs, away = tmp_path / "blobs", tmp_path / "away"
    async with fleet("a", "b", blob_url=str(blobs)) as (first, second):
        await ask(first, "question 1")
        blobs.rename(away)
        blobs.write_text("no folder")
        with capture_logs() as lines:
            _, thread = await ask(first, "not recorded")
        assert message_texts(model) == ["question 1", FINAL, "not recorded"]
        (line,) = [line for line in lines if line["event"] == "rollout.not_kept"]
        assert (line["thread"], line["generation"]) == (thread, 1)
        assert record(registry).turns == 1
        # Another worker cannot have the copy now: it asks nothing, and the thread is not given up for that.
        with pytest.raises(BlobsDown):
            await ask(second, "question 2")
        with pytest.raises(BlobsDown):
            async with second.conversation(spec(keep=True, opening="fork"), deadline()):
                pass
        assert (record(registry).thread_id, record(registry).turns) == (thread, 1)
        blobs.unlink()
        away.rename(blobs)
        assert await ask(first, "question 2") == ("resumed", thread)
        assert message_texts(model) == ["question 1", FINAL, "question 2"]
        assert await ask(second, "question 3") == ("resumed", thread)
        assert message_texts(model) == ["question 1", FINAL, "question 2", FINAL, "question 3"]


async def test_a_fetch_that_fails_once_costs_nothing(
    model: FakeResponses, tmp_path: Path, registry: str, fleet: Fleet
) -> None:
    """The database answers nothing for a moment: its table is not to be had."""
    numbered(model)
    async with fleet("a", "b") as (first, second):
        _, thread = await ask(first, "question 1")
        before = record(registry)
        with closing(sqlite3.connect(tmp_path / "vault.db")) as held:
            held.execute("ALTER TABLE blob RENAME TO elsewhere")
            with pytest.raises(BlobsDown, match="does not take or give") as refused:
                await ask(second, "question 2")
            assert refused.value.retryable
            assert record(registry) == before
            held.execute("ALTER TABLE elsewhere RENAME TO blob")
        assert await ask(second, "question 2") == ("resumed", thread)
        assert message_texts(model) == history(2)


async def test_a_copy_that_cannot_be_put_in_place_costs_nothing(
    model: FakeResponses, tmp_path: Path, fleet: Fleet
) -> None:
    """Something is in the way, as on a full disk: the thread goes on where there is room, and here later."""
    numbered(model)
    async with fleet("a", "b") as (first, second):
        _, thread = await ask(first, "question 1")
        sessions = tmp_path / "b" / "codex" / "b" / "kept" / "sessions"
        assert not sessions.exists()
        sessions.write_text("no folder")
        with pytest.raises(ServiceError, match="cannot be read or written here") as refused:
            await ask(second, "question 2")
        assert refused.value.retryable
        assert await ask(first, "question 2") == ("resumed", thread)
        sessions.unlink()
        assert await ask(second, "question 3") == ("resumed", thread)
        assert message_texts(model) == history(3)
