"""Vaults for tests: real ones, over a database of the test's own, each worker with connections of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from sqlmodel import col, select

from chordesk.agents.codex.rollouts import ThreadVault
from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.models.database.blobs import blob_store
from chordesk.models.database.store import Store
from chordesk.models.tables.runtime import KeptThread, Rollout
from tests.agents.codex.kit import running
from tests.databases import make_database
from tests.fakes.responses import FakeResponses


@contextmanager
def vault_over(database: str, blob_url: str | None = None) -> Iterator[ThreadVault]:
    """Return the vault of one worker. The database has its tables already."""
    store = Store(database)
    try:
        yield ThreadVault(store, blob_store(blob_url, store))
    finally:
        store.close()


def database_in(folder: Path) -> str:
    """The URL of a new database with the newest schema."""
    url = f"sqlite:///{folder / 'vault.db'}"
    make_database(url)
    return url


def copies(database: str, thread_id: str) -> list[Rollout]:
    """A thread's copies, the oldest first."""
    store = Store(database)
    try:
        with store.read() as session:
            wanted = select(Rollout).where(Rollout.thread_id == thread_id).order_by(col(Rollout.generation))
            return list(session.exec(wanted).all())
    finally:
        store.close()


def kept_threads(database: str) -> list[KeptThread]:
    """Every thread that was ever recorded, the oldest first."""
    store = Store(database)
    try:
        with store.read() as session:
            return list(session.exec(select(KeptThread).order_by(col(KeptThread.created_at))).all())
    finally:
        store.close()


@asynccontextmanager
async def workers(
    model: FakeResponses, tmp_path: Path, registry: str, *names: str, blob_url: str | None = None, **changes: Any
) -> AsyncIterator[list[CodexRuntime]]:
    """Runtimes with homes, database connections and Redis connections of their own."""
    async with AsyncExitStack() as stack:
        runtimes = []
        for name in names:
            vault = stack.enter_context(vault_over(f"sqlite:///{tmp_path / 'vault.db'}", blob_url))
            opened = running(model, tmp_path / name, registry, vault=vault, worker=name, **changes)
            runtimes.append(await stack.enter_async_context(opened))
        yield runtimes


Fleet = Callable[..., AbstractAsyncContextManager[list[CodexRuntime]]]
