"""Events for readers: what is stored first, then live, each run's in order, without a gap or a repeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from sqlmodel import Session

from models import event_log
from models.errors import DatabaseDown, NotFound, UsageError
from models.events import DESK, Envelope
from models.settings import Settings
from models.store import Store
from models.tables import Run
from tasks.events.pages import Pages
from tasks.events.reading import read_on
from tasks.events.sources import AWAY, DeskSource, RunSource, Source, read
from tasks.events.streams import ALL, Stream, key_of
from tasks.events.tail import BATCH, LOOK_SECONDS, RING, Closed, Tail
from tasks.redis_clients import wrong_url

T = TypeVar("T")

# Readers that go on from the database wait for each other here, and hold up nothing else.
THREADS = 4
# A server that is there and does not answer must not keep the database from being asked.
REDIS_SECONDS = LOOK_SECONDS + 1.0


class Feed:
    """The events of the desk for any number of readers of one event loop. Making one does no I/O; `close` ends all
    readers, and so does the end of `async with`.

    Readers of the same run share one task and one buffer. A reader that is too slow for the buffer goes on from the
    database; it holds nobody up. Redis only tells sooner: without it the database is asked every second.
    redis_url: None when there is no Redis. Whoever stops reading before the end closes the iterator
    (`contextlib.aclosing`).
    """

    def __init__(self, store: Store, redis_url: str | None, settings: Settings) -> None:
        self._store = store
        self._ring = min(RING, settings.event_stream_length)
        self._redis = _client(redis_url) if redis_url is not None else None
        self._threads = ThreadPoolExecutor(THREADS, "feed")
        self._pages = Pages(self._read)
        self._tails: dict[str, Tail] = {}
        self._closed = False

    async def check(self, run_id: str, after: int = 0) -> None:
        """For who must refuse before the first event goes out. Raises NotFound for a run that there is not,
        UsageError for a sequence that it does not have, HistoryTrimmed, DatabaseDown."""
        await self.page(run_id, after, 1)

    async def page(self, run_id: str, after: int = 0, limit: int = BATCH) -> list[Envelope]:
        """The stored events of a run after a sequence, `limit` at the most. Raises as `check` does."""
        return await self._asked(self._checked, run_id, after, limit)

    async def follow(self, run_id: str, after: int = 0, *, deltas: bool = False) -> AsyncGenerator[Envelope]:
        """Every event of a run after a sequence; ends when no more will come (`sources.is_over`) and all that was
        stored is delivered.

        run_id: a run, or DESK for what belongs to none, which never ends. deltas: those of live turns too, between
        the events, from now on.
        Raises as `check` does, at the first event or whenever a slow reader asks for what was trimmed meanwhile.
        """
        with suppress(Closed):
            await self.check(run_id, after)
            async with self._joined(key_of(run_id), lambda: RunSource(self._store, run_id)) as tail:
                reading = read_on(tail, self._pages.after, {run_id: after}, tail.ring.find(after))
                async with aclosing(reading):
                    async for one in reading:
                        if deltas or one.sequence is not None:
                            yield one

    async def follow_desk(self, *, deltas: bool = False) -> AsyncGenerator[Envelope]:
        """What happens from now on in all runs, and what belongs to none; never ends. Each run's events are in order
        and without a gap. Raises HistoryTrimmed, DatabaseDown."""
        with suppress(Closed):
            async with self._joined(ALL, lambda: DeskSource(self._store)) as tail:
                reading = read_on(tail, self._pages.after, dict(tail.order.positions), tail.ring.end)
                async with aclosing(reading):
                    async for one in reading:
                        if deltas or one.sequence is not None:
                            yield one

    async def close(self) -> None:
        """Ends all readers: each one's iteration stops when it has what is in memory."""
        self._closed = True
        for tail in self._tails.values():
            tail.end()
        self._threads.shutdown(wait=False)
        if self._redis is not None:
            await self._redis.aclose()

    async def __aenter__(self) -> Feed:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @asynccontextmanager
    async def _joined(self, key: str, source: Callable[[], Source]) -> AsyncIterator[Tail]:
        """The tail of this stream for one more reader."""
        tail = self._tails.get(key)
        if tail is None or tail.over:
            stream = Stream(self._redis, key) if self._redis is not None else None
            tail = self._tails[key] = Tail(source(), stream, self._ask, self._ring)
        tail.readers += 1
        try:
            await _told(tail.ready())
            yield tail
        finally:
            tail.readers -= 1
            if tail.readers == 0:
                tail.end()
                if self._tails.get(key) is tail:
                    del self._tails[key]

    async def _read(self, run_id: str, after: int, limit: int) -> list[Envelope]:
        return await self._asked(read, self._store, run_id, after, limit)

    def _checked(self, run_id: str, after: int, limit: int) -> list[Envelope]:
        with self._store.read() as session:
            _require(session, run_id, after)
            return event_log.read(session, run_id, after, limit)

    async def _ask(self, do: Callable[..., T], *arguments: Any) -> T:
        """What a function that waits for the database gives, off the loop. Raises Closed."""
        if self._closed:
            raise Closed
        return await asyncio.get_running_loop().run_in_executor(self._threads, do, *arguments)

    async def _asked(self, do: Callable[..., T], *arguments: Any) -> T:
        return await _told(self._ask(do, *arguments))


async def _told(answer: Awaitable[T]) -> T:
    """The answer, or the error that a reader is told of."""
    try:
        return await answer
    except AWAY as error:
        raise DatabaseDown(f"the events cannot be read: {type(error).__name__}") from error


def _require(session: Session, run_id: str, after: int) -> None:
    """Raises NotFound for a run that there is not, UsageError for a sequence that it does not have."""
    last = event_log.head(session, run_id)[1]
    if not last and run_id != DESK and session.get(Run, run_id) is None:
        raise NotFound(f"there is no run {run_id!r}", remedy="`desk runs list` shows them")
    if not 0 <= after <= last:
        raise UsageError(
            f"run {run_id} has events 1 to {last}: {after} is none of them", remedy="0 is before the first"
        )


def _client(address: str) -> redis.asyncio.Redis:
    """Raises SettingError."""
    limits = {"socket_timeout": REDIS_SECONDS, "socket_connect_timeout": REDIS_SECONDS}
    try:
        # Not tried again here: meanwhile the database would not be asked.
        return redis.asyncio.from_url(address, retry=Retry(NoBackoff(), 0), **limits)
    except (TypeError, ValueError, redis.RedisError):
        raise wrong_url(address) from None
