"""Feed of events for readers: stored ones first, then live, each run's in order, without a gap or a repeat."""

from __future__ import annotations

import asyncio
import datetime as dt
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from sqlmodel import Session

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import DatabaseDown, HistoryTrimmed, NotFound, UsageError
from chordesk.models.events import DESK, Envelope
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.tasks.events.sources import AWAY, DeskPlace, DeskSource, RunSource, Source, StoredEvents
from chordesk.tasks.events.streams import ALL, Stream, key_of
from chordesk.tasks.events.tail import BATCH, CHECK_SECONDS, RING, Closed, Tail
from chordesk.tasks.redis_clients import wrong_url

PAGE = 250  # events
PAGES = 32

# Returns the first events of a run after a sequence, up to a number of them.
ReadEvents = Callable[[str, int, int], Awaitable[list[Envelope]]]


class Pages:
    """Cache of stored pages for all readers of the database. Stored events do not change: a full page is kept, and the
    least recently used one is evicted."""

    def __init__(self, read: ReadEvents) -> None:
        self._read = read
        self._pages: OrderedDict[tuple[str, int], asyncio.Future[list[Envelope]]] = OrderedDict()

    async def after(self, run_id: str, position: int) -> list[Envelope]:
        """Return the next events of a run after a sequence, up to a page. Raises what `read` raises."""
        start = position - position % PAGE
        try:
            rows = await self._page(run_id, start)
        except HistoryTrimmed:
            rows = []  # the start of the page is trimmed; the events after the position may be stored
        following = rows[bisect_right(rows, position, key=lambda one: one.sequence or 0) :]
        # The last page may have been read before these events were stored.
        return following or await self._read(run_id, position, PAGE)

    async def _page(self, run_id: str, start: int) -> list[Envelope]:
        key = (run_id, start)
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = asyncio.ensure_future(self._read(run_id, start, PAGE))
            page.add_done_callback(lambda done: self._evict(key, done))
        self._pages.move_to_end(key)
        return await asyncio.shield(page)

    def _evict(self, key: tuple[str, int], done: asyncio.Future[list[Envelope]]) -> None:
        if done.cancelled() or done.exception() is not None or len(done.result()) < PAGE:
            self._pages.pop(key, None)
        while len(self._pages) > PAGES:
            self._pages.popitem(last=False)


async def read_on(
    tail: Tail, pages: Pages, positions: dict[str, int], cursor: int | None, *, deltas: bool = False,
    caught_up: Callable[[dt.datetime], None] = lambda _: None,
) -> AsyncGenerator[Envelope]:  # fmt: skip
    """Yield the events after these positions, with `deltas` those too; end after the last event of a tail that is over.

    positions: the last sequence that the reader has, by run; kept up to date. cursor: its place in the tail's ring,
    None when not all the events it lacks are there. caught_up: called whenever the reader has everything that was
    committed at a time, with that time. Raises HistoryTrimmed.
    """
    while True:
        events = tail.ring.since(cursor, BATCH) if cursor is not None else None
        if events is None or cursor is None:
            # First the place to continue from, then the events before it.
            cursor, behind = tail.ring.end, tail.behind(positions)
            for run_id, upto in behind.items():
                while (position := positions.get(run_id, 0)) < upto:
                    rows = await pages.after(run_id, position)
                    if not rows:
                        raise HistoryTrimmed(run_id, position, upto, upto)
                    for one in _new(rows, positions):
                        yield one
            continue
        cursor += len(events)
        for one in _new(events, positions):
            if deltas or one.sequence is not None:
                yield one
        if not events:
            caught_up(tail.confirmed_at)
            if tail.over:
                if tail.error is not None:
                    raise tail.error
                return
            await tail.ring.changed()


def _new(events: Iterable[Envelope], positions: dict[str, int]) -> Iterator[Envelope]:
    """Yield the events that the reader does not have yet. Raises HistoryTrimmed rather than leave a gap."""
    for one in events:
        if one.sequence is None:
            yield one
            continue
        position = positions.get(one.run_id, 0)
        if one.sequence <= position:
            continue
        if one.sequence > position + 1:
            raise HistoryTrimmed(one.run_id, position, one.sequence - 1, one.sequence)
        positions[one.run_id] = one.sequence
        yield one


T = TypeVar("T")

# Readers of the database wait for each other here, and delay nothing else.
THREADS = 4
# A Redis that does not answer must not delay the checks of the database.
REDIS_SECONDS = CHECK_SECONDS + 1.0


class Placed(NamedTuple):
    """An event of any run, and the place after it; the place alone where there is no event."""

    event: Envelope | None
    place: str


class Feed:
    """Feed of the desk's events for any number of readers of one event loop. Making one does no I/O; `close` ends all
    readers, and so does the end of `async with`.

    Readers of the same run share one task and one ring. A reader that is too slow for the ring continues from the
    database and delays no other. Redis only makes it quicker: without it the database is checked every second.
    redis_url: None when there is no Redis. A reader that stops before the end has to close the iterator
    (`contextlib.aclosing`).
    """

    def __init__(self, store: Store, redis_url: str | None, settings: Settings) -> None:
        self._store = store
        self._ring = min(RING, settings.event_stream_length)
        self._redis = _client(redis_url) if redis_url is not None else None
        self._threads = ThreadPoolExecutor(THREADS, "feed")
        self._pages = Pages(partial(self._query, StoredEvents(store).read))
        self._tails: dict[str, Tail] = {}
        self._closed = False

    async def check(self, run_id: str, after: int = 0) -> None:
        """Check a request before its first event is sent. Raises NotFound for an unknown run, UsageError for a sequence
        that the run does not have, HistoryTrimmed, DatabaseDown."""
        await self.page(run_id, after, 1)

    async def page(self, run_id: str, after: int = 0, limit: int = BATCH) -> list[Envelope]:
        """Return up to `limit` stored events of a run after a sequence. Raises as `check` does."""
        return await self._query(self._checked, run_id, after, limit)

    async def follow(self, run_id: str, after: int = 0, *, deltas: bool = False) -> AsyncGenerator[Envelope]:
        """Yield every event of a run after a sequence; end when no more will come (`sources.is_over`) and all stored
        events are delivered.

        run_id: a run, or DESK for the events of none, which never end. deltas: also yield the deltas of live turns,
        between the events, from now on.
        Raises as `check` does, at the first event, when a slow reader needs events that were trimmed meanwhile, or at
        the end of a run that was deleted.
        """
        with suppress(Closed):
            await self.check(run_id, after)
            async with self._tail(key_of(run_id), RunSource(self._store, run_id)) as tail:
                reading = read_on(tail, self._pages, {run_id: after}, tail.ring.find(after), deltas=deltas)
                async with aclosing(reading):
                    async for one in reading:
                        yield one
            await self._query(self._there, run_id)

    async def follow_desk(self, *, deltas: bool = False) -> AsyncGenerator[Envelope]:
        """Yield the events of all runs, and of none, from now on; never end. Each run's events are in order and without
        a gap. Raises HistoryTrimmed, DatabaseDown."""
        async with aclosing(self.follow_all(None, deltas=deltas)) as placed:
            async for one in placed:
                if one.event is not None:
                    yield one.event

    async def check_place(self, place: DeskPlace | None) -> None:
        """Check a request for all runs before its first event is sent. Raises UsageError, HistoryTrimmed,
        DatabaseDown."""
        await self._query(DeskSource(self._store).progress, place)

    async def follow_all(self, place: DeskPlace | None, *, deltas: bool = False) -> AsyncGenerator[Placed]:
        """Yield the events of all runs, and of none, after a place, without one from now on; never end. First comes the
        place itself, without an event. Each run's events are in order, without a gap or a repeat.

        Raises as `check_place` does, also when a slow reader needs events that were trimmed meanwhile.
        """
        with suppress(Closed):
            async with self._tail(ALL, DeskSource(self._store)) as tail:
                begun, known = tail.confirmed_at, dict(tail.order.positions)
                has = await self._query(DeskSource(self._store).progress, place)
                if place is None:
                    # What was written while that was read belongs to what comes from now on.
                    has = replace(has, positions=known, at=begun)
                yield Placed(None, str(has.place()))
                reading = read_on(
                    tail, self._pages, has.positions, None, deltas=deltas, caught_up=has.caught_up
                )  # fmt: skip
                async with aclosing(reading):
                    async for one in reading:
                        if one.sequence is not None:
                            has.got(one.run_id, utcnow())
                        yield Placed(one, str(has.place()))

    async def close(self) -> None:
        """End all readers: each one's iteration stops after the events in memory."""
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
    async def _tail(self, key: str, source: Source) -> AsyncIterator[Tail]:
        """Yield the tail of this stream to one more reader."""
        tail = self._tails.get(key)
        if tail is None or tail.over:
            stream = Stream(self._redis, key) if self._redis is not None else None
            tail = self._tails[key] = Tail(source, stream, self._in_thread, self._ring)
        tail.readers += 1
        try:
            await _or_down(tail.ready())
            yield tail
        finally:
            tail.readers -= 1
            if tail.readers == 0:
                tail.end()
                if self._tails.get(key) is tail:
                    del self._tails[key]

    def _checked(self, run_id: str, after: int, limit: int) -> list[Envelope]:
        with self._store.read() as session:
            _require(session, run_id, after)
            return event_log.read(session, run_id, after, limit)

    def _there(self, run_id: str) -> None:
        with self._store.read() as session:
            _require_run(session, run_id)

    async def _in_thread(self, do: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a function that waits for the database, off the loop. Raises Closed."""
        if self._closed:
            raise Closed
        return await asyncio.get_running_loop().run_in_executor(self._threads, do, *arguments)

    async def _query(self, do: Callable[..., T], *arguments: Any) -> T:
        return await _or_down(self._in_thread(do, *arguments))


async def _or_down(result: Awaitable[T]) -> T:
    """Return the result. Raises DatabaseDown."""
    try:
        return await result
    except AWAY as error:
        raise DatabaseDown(f"the events cannot be read: {type(error).__name__}") from error


def _require(session: Session, run_id: str, after: int) -> None:
    """Raise NotFound for an unknown run, UsageError for a sequence that it does not have."""
    last = event_log.head(session, run_id)[1]
    if not last:
        _require_run(session, run_id)
    if not 0 <= after <= last:
        raise UsageError(
            f"run {run_id} has events 1 to {last}: {after} is none of them", remedy="0 is before the first"
        )


def _require_run(session: Session, run_id: str) -> None:
    """Raise NotFound for an unknown run."""
    if run_id != DESK and session.get(Run, run_id) is None:
        raise NotFound(f"there is no run {run_id!r}", remedy="`desk runs list` shows them")


def _client(address: str) -> redis.asyncio.Redis:
    """Return a client that is not retried. Raises SettingError."""
    limits = {"socket_timeout": REDIS_SECONDS, "socket_connect_timeout": REDIS_SECONDS}
    try:
        # A retry would delay the checks of the database.
        return redis.asyncio.from_url(address, retry=Retry(NoBackoff(), 0), **limits)
    except (TypeError, ValueError, redis.RedisError):
        raise wrong_url(address) from None
