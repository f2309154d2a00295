"""The rollouts of one home and the vault behind them: the right copy at hand before a turn, a new copy after it.

Files, compression and the vault are worked on in threads of their own: neither the event loop nor a tool call
waits for them.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from agents.codex.homes import Home
from agents.codex.rollouts import Vault, digest_of, read, write
from agents.codex.threads import ThreadRecord
from models.errors import BlobsDown, ServiceError, ThreadInUse
from models.thread_tables import KeptThread, Rollout

log = logging.getLogger(__name__)

T = TypeVar("T")
WORKERS = 8
SECONDS = 10.0  # for one rollout to the vault or from it, with its turn for a thread


@dataclass(frozen=True, slots=True)
class _Copy:
    """The rollout that a record means. in_place: it is what the home has, to the byte."""

    data: bytes
    in_place: bool


class RolloutFiles:
    """vault: None in a worker whose threads never leave its home; then no digest is recorded, and none is checked."""

    def __init__(self, home: Home, vault: Vault | None) -> None:
        self._codex_home, self._scratch = home.of("kept"), home.of("scratch")
        self._vault = vault
        self._threads = ThreadPoolExecutor(WORKERS, "rollouts")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def bring(self, record: ThreadRecord, unloaded: Callable[[str], Awaitable[bool]]) -> bool:
        """Sees to it that the home has the very rollout of the record; False when there is none any more.

        unloaded(thread_id) waits until no process of the home has the thread in its memory, and says whether it came
        to that: a process that is asked to resume a thread which it has goes on with what it has, not with the file.

        Raises ServiceError, ThreadInUse when nobody can tell or it cannot be put in place now: the thread is as good as
        it was, and the next attempt may go on in it.
        """
        if record.rollout_digest is None:
            return True
        copy = await self._copy(record)
        if copy is None or copy.in_place:
            return copy is not None
        if not await unloaded(record.thread_id):
            raise ThreadInUse(f"thread {record.thread_id} is still in use here; generation {record.generation} waits")
        with _of_this_home(record):
            await self._off(partial(write, self._codex_home, str(record.rollout_path), copy.data))
        log.info("thread %s was brought here at generation %d", record.thread_id, record.generation)
        return True

    @asynccontextmanager
    async def source(self, record: ThreadRecord) -> AsyncIterator[tuple[bool, Path | None]]:
        """What to fork the record's thread from: whether there is anything, and the file, None for the home's own.

        The home's own is left alone: who has the thread may be writing to it. Raises ServiceError.
        """
        copy = await self._copy(record) if record.rollout_digest is not None else None
        if record.rollout_digest is None or copy is None or copy.in_place:
            yield record.rollout_digest is None or copy is not None, None
            return
        folder = self._scratch / uuid.uuid4().hex
        name = Path(str(record.rollout_path)).name
        try:
            with _of_this_home(record):
                await self._off(partial(write, folder, name, copy.data))
            yield True, folder / name
        finally:
            await self._off(partial(_remove, folder))

    async def keep(self, thread: KeptThread, record: ThreadRecord) -> ThreadRecord | None:
        """Gives the vault a copy of the thread's rollout and returns the record of it, at the generation it was given;
        None when the vault did not take it: then the registry must not move on."""
        if self._vault is None or record.rollout_path is None:
            return record.model_copy(update={"rollout_digest": None, "rollout_size": 0})
        try:
            rollout = await self._off(partial(self._put, thread, record))
        except (ServiceError, OSError) as error:
            log.warning(
                "the rollout of thread %s is not kept; its record stays at generation %d: %s",
                record.thread_id, record.generation - 1, error,
            )  # fmt: skip
            return None
        return record.model_copy(update={"rollout_digest": rollout.digest, "rollout_size": rollout.size})

    async def note(self, thread: KeptThread) -> None:
        """Keeps the row of a thread that no copy is kept of; when the vault does not take it, that is logged."""
        if self._vault is None:
            return
        try:
            await self._off(partial(self._vault.note, thread))
        except (ServiceError, OSError) as error:
            log.warning("what thread %s came from is not kept: %s", thread.thread_id, error)

    async def _copy(self, record: ThreadRecord) -> _Copy | None:
        """None when the vault has answered that there is no such copy, or that it is garbled."""
        with _of_this_home(record):
            copy = await self._off(partial(self._find, record))
        if copy is None:
            log.warning("generation %d of thread %s is nowhere, or garbled", record.generation, record.thread_id)
        return copy

    def _find(self, record: ThreadRecord) -> _Copy | None:
        """A file that only goes on beyond the record's is as good as the vault's: what it has more is left off. That
        is what a turn leaves behind whose worker or process died."""
        local = read(self._codex_home, str(record.rollout_path))
        if local is not None:
            whole = local[: record.rollout_size]
            if digest_of(whole) == record.rollout_digest:
                return _Copy(whole, len(whole) == len(local))
            log.info("the rollout of thread %s here is not generation %d's", record.thread_id, record.generation)
        data = self._vault.fetch(str(record.rollout_digest)) if self._vault is not None else None
        return _Copy(data, False) if data is not None else None

    def _put(self, thread: KeptThread, record: ThreadRecord) -> Rollout:
        assert self._vault is not None
        path = str(record.rollout_path)
        data = read(self._codex_home, path)
        if data is None:
            raise FileNotFoundError(f"there is no {path}")
        rollout = Rollout(
            thread_id=record.thread_id,
            generation=record.generation,
            token=record.token,
            digest=digest_of(data),
            path=path,
            size=len(data),
            turns=record.turns,
        )
        self._vault.put(thread, rollout, data)
        return rollout

    async def _off(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError:
            raise BlobsDown(f"a rollout took more than {SECONDS:g} s to the vault or from it") from None


@contextmanager
def _of_this_home(record: ThreadRecord) -> Iterator[None]:
    """A file that cannot be read or written says nothing about the thread."""
    try:
        yield
    except OSError as error:
        raise ServiceError(
            f"the rollout of thread {record.thread_id} cannot be read or written here: {error}",
            remedy="see that the worker's home has space and is its own",
        ) from error


def _remove(folder: Path) -> None:
    """The folder may not be there, if it could not be written."""
    shutil.rmtree(folder, ignore_errors=True)
