"""The rollouts of one home and the vault behind them: the right copy at hand before a turn, a new copy after it.

Files, compression and the vault are worked on in threads of their own: neither the event loop nor a tool call
waits for them.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from chordesk.agents.codex.server.homes import Home
from chordesk.agents.codex.threads.registry import Lease
from chordesk.agents.codex.threads.rollouts import digest_of, read, without, write
from chordesk.agents.codex.threads.trimming import Shortened, trimmed
from chordesk.agents.codex.threads.vault import ThreadVault
from chordesk.agents.kept_threads import ThreadRecord
from chordesk.models.errors import BlobsDown, ServiceError, ThreadInUse
from chordesk.models.tables.threads import KeptThread, Rollout

log = structlog.get_logger(__name__)

T = TypeVar("T")
WORKERS = 8
SECONDS = 10.0  # for one rollout to the vault or from it, with its turn for a thread


@dataclass(frozen=True, slots=True)
class _Copy:
    """The rollout of a record. in_place: the home's file is the same, to the byte."""

    data: bytes
    in_place: bool


class RolloutFiles:
    """Rollouts of one home. vault: None in a worker whose threads never leave its home; then no digest is recorded or
    checked. secrets: hidden in the vault's copies; the app-server records a provider's error as it came, and some quote
    the key."""

    def __init__(self, home: Home, vault: ThreadVault | None, secrets: Iterable[str] = ()) -> None:
        self._codex_home, self._scratch = home.of("kept"), home.of("scratch")
        self._vault, self._secrets = vault, tuple(secrets)
        self._threads = ThreadPoolExecutor(WORKERS, "rollouts")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def bring(self, record: ThreadRecord, unloaded: Callable[[str], Awaitable[bool]]) -> bool:
        """Sees to it that the home has the very rollout of the record; False when there is none any more.

        unloaded(thread_id) waits until no process of the home has the thread in memory, and returns whether none has: a
        process that resumes a thread it has in memory continues from there, not from the file.

        Raises ServiceError, ThreadInUse when the copy cannot be found or put in place now: the thread is still good,
        and the next attempt may continue in it.
        """
        if record.rollout_digest is None:
            return True
        if (copy := await self._copy(record)) is None or copy.in_place:
            return copy is not None
        if not await unloaded(record.thread_id):
            raise ThreadInUse(f"thread {record.thread_id} is still in use here; generation {record.generation} waits")
        with _local_errors(record):
            await self._in_thread(partial(write, self._codex_home, str(record.rollout_path), copy.data))
        log.info("rollout.fetched", thread=record.thread_id, generation=record.generation)
        return True

    async def trim(
        self, record: ThreadRecord, answers: int, unloaded: Callable[[str], Awaitable[bool]]
    ) -> Shortened | None:
        """Shorten the home's copy to the thread's last answers (see `trimmed`) and return what `keep` makes the whole
        of again; None when nothing was left out.

        The only copy, of a thread without a vault, stays as it is, and so does one that a process has in memory: it
        would be continued from there. Raises ServiceError.
        """
        if self._vault is None:
            return None
        with _local_errors(record):
            whole = await self._in_thread(partial(read, self._codex_home, str(record.rollout_path)))
            short = await self._in_thread(partial(trimmed, whole, answers)) if whole is not None else None
            if whole is None or short is None or short == whole or not await unloaded(record.thread_id):
                return None
            await self._in_thread(partial(write, self._codex_home, str(record.rollout_path), short))
        return Shortened(whole, len(short))

    @asynccontextmanager
    async def source(self, record: ThreadRecord, answers: int | None = None) -> AsyncIterator[tuple[bool, Path | None]]:
        """Yield whether the record's thread can be forked, and the file to fork from, None for the home's own. answers:
        leave out all but the last so many (see `trimmed`).

        The home's own file is not replaced: a process may be writing to it. Raises ServiceError.
        """
        copy = await self._copy(record) if record.rollout_digest is not None else None
        data = copy.data if copy is not None else b""
        if answers is not None:
            data = await self._in_thread(partial(trimmed, data, answers))
        if copy is None or (copy.in_place and data == copy.data):
            yield record.rollout_digest is None or copy is not None, None
            return
        folder = self._scratch / uuid.uuid4().hex
        name = Path(str(record.rollout_path)).name
        try:
            with _local_errors(record):
                await self._in_thread(partial(write, folder, name, data))
            yield True, folder / name
        finally:
            # The folder may not exist if it could not be written.
            await self._in_thread(partial(shutil.rmtree, folder, ignore_errors=True))

    async def keep(
        self, thread: KeptThread, record: ThreadRecord, shortened: Shortened | None = None
    ) -> ThreadRecord | None:
        """Give the vault a copy of the thread's rollout and return the record of it, at the generation it was given;
        None when the vault did not take it: then the registry must not move on. shortened: what the home's copy was
        before it was trimmed; the vault's is whole."""
        if self._vault is None or record.rollout_path is None:
            return record.model_copy(update={"rollout_digest": None, "rollout_size": 0})
        try:
            rollout = await self._in_thread(partial(self._put, thread, record, shortened))
        except (ServiceError, OSError) as error:
            log.warning("rollout.not_kept", thread=record.thread_id, generation=record.generation - 1, error=str(error))
            return None
        return record.model_copy(update={"rollout_digest": rollout.digest, "rollout_size": rollout.size})

    async def note(self, thread: KeptThread) -> None:
        """Store the row of a thread of which no copy is kept; log it when the vault does not take it."""
        if self._vault is None:
            return
        try:
            await self._in_thread(partial(self._vault.note, thread))
        except (ServiceError, OSError) as error:
            log.warning("rollout.source_not_kept", thread=thread.thread_id, error=str(error))

    async def _copy(self, record: ThreadRecord) -> _Copy | None:
        """None when the vault has answered that there is no such copy, or that it is garbled."""
        with _local_errors(record):
            copy = await self._in_thread(partial(self._find, record))
        if copy is None:
            log.warning("rollout.missing_or_garbled", thread=record.thread_id, generation=record.generation)
        return copy

    def _find(self, record: ThreadRecord) -> _Copy | None:
        """Find the copy of a record. A local file that continues beyond the record's is as good as the vault's, and the
        rest is cut off: a turn leaves it behind when its worker or process dies."""
        if (local := read(self._codex_home, str(record.rollout_path))) is not None:
            whole = local[: record.rollout_size]
            if digest_of(whole) == record.rollout_digest:
                return _Copy(whole, len(whole) == len(local))
            log.info("rollout.differs_here", thread=record.thread_id, generation=record.generation)
        data = self._vault.fetch(str(record.rollout_digest)) if self._vault is not None else None
        return _Copy(data, False) if data is not None else None

    def _put(self, thread: KeptThread, record: ThreadRecord, shortened: Shortened | None) -> Rollout:
        assert self._vault is not None
        path = str(record.rollout_path)
        if (data := read(self._codex_home, path)) is None:
            raise FileNotFoundError(f"there is no {path}")
        data = shortened.continued(data) if shortened is not None else data
        data = without(data, self._secrets)
        same = record.model_dump(include={"thread_id", "generation", "token", "turns"})
        rollout = Rollout(**same, digest=digest_of(data), path=path, size=len(data))
        self._vault.put(thread, rollout, data)
        return rollout

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError:
            raise BlobsDown(f"a rollout took more than {SECONDS:g} s to the vault or from it") from None


@contextmanager
def _local_errors(record: ThreadRecord) -> Iterator[None]:
    """Turn a local file error into ServiceError: it does not mean that the thread is lost."""
    try:
        yield
    except OSError as error:
        raise ServiceError(
            f"the rollout of thread {record.thread_id} cannot be read or written here: {error}",
            remedy="see that the worker's home has space and is its own",
        ) from error


def kept_thread(lease: Lease, record: ThreadRecord, parent_id: str | None, before_turn: str | None) -> KeptThread:
    """Return the vault's row of the record's thread. parent_id: the thread that it is a fork of, if it is one."""
    same = record.model_dump(include={"thread_id", "mode", "model", "reason"})
    same |= {"role": lease.role, "subject": lease.subject, "worker": record.owner}
    return KeptThread(**same, parent_id=parent_id, before_turn=before_turn)
