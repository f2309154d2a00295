"""The live end of a run's events, or of the whole desk's: one task for all readers of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import redis.exceptions
import structlog

from models.errors import HistoryTrimmed
from models.events import Envelope, EventType
from tasks.events.order import Order
from tasks.events.ring import Ring
from tasks.events.sources import AWAY, Source
from tasks.events.streams import Stream

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0  # how often the database is asked, for what a stream has left out
LATE_SECONDS = 0.02  # how long what is missing may come late, from another process, before it is read
BATCH = 500
RING = 2_000

# Runs a function that waits for the database, off the loop.
Ask = Callable[..., Awaitable[Any]]


class Closed(Exception):
    """The feed is closed: no reader of it goes on."""


class Tail:
    """Events in order, in a ring, as they happen. The stream, if there is one, tells of them; the database is asked
    about whatever it may leave out: what is missing between two of them, and what came last.

    For the loop of its readers. over: no more events will come; error: why, where the run has not ended.
    """

    def __init__(self, source: Source, stream: Stream | None, ask: Ask, ring: int = RING) -> None:
        self.readers = 0
        self.over = False
        self.error: Exception | None = None
        self.ring = Ring(ring)
        self.order = Order({})
        self._source, self._stream, self._ask = source, stream, ask
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._looked_at = self._gap_since = 0.0
        self._troubles: set[str] = set()
        self._task = asyncio.create_task(self._run())

    async def ready(self) -> None:
        """Until it is known how far the events are. Raises what the database raises when that cannot be known."""
        await asyncio.shield(self._ready)

    def end(self) -> None:
        """Its readers get what is in the ring, and then end."""
        self._task.cancel()
        self._close()

    def behind(self, positions: Mapping[str, int]) -> dict[str, int]:
        """The runs that are further than a reader is, and how far."""
        return {run: last for run, last in self.order.positions.items() if last > positions.get(run, 0)}

    async def _run(self) -> None:
        try:
            while not self.over:
                if self._stream is not None:
                    await self._listen(self._stream)
                await self._look()
                if not self.over:
                    await asyncio.sleep(LOOK_SECONDS)
        except Closed:
            self._close()
        except Exception as error:
            log.exception("events.broke")
            self._close(error)

    def _close(self, error: Exception | None = None) -> None:
        """error: why no more can be told, where that is not because there is no more."""
        self.over, self.error = True, error
        if not self._ready.done():
            self._ready.set_exception(error or Closed())
            self._ready.exception()  # nobody may be waiting
        self.ring.wake()

    async def _listen(self, stream: Stream) -> None:
        """For as long as Redis answers and there is something to come."""
        try:
            # In this order: what is not stored yet at the look comes after the end.
            await stream.to_end()
            await self._look()
            self._well("redis")
            while not self.over:
                wait = LATE_SECONDS if self.order.gaps() else LOOK_SECONDS
                told = self._put(await stream.following(BATCH, wait))
                await self._fill_gaps()
                if told or self._now() - self._looked_at >= LOOK_SECONDS:
                    await self._look()
        except (redis.exceptions.RedisError, OSError) as error:
            self._ill("redis", error)

    def _put(self, events: list[Envelope]) -> bool:
        """Whether a run's end is among them: then the database is asked whether that was all."""
        ready = self.order.take(events)
        self.ring.put(ready)
        return any(one.type is EventType.RUN_COMPLETED for one in ready)

    async def _fill_gaps(self) -> None:
        gaps = self.order.gaps()
        if not gaps:
            self._gap_since = 0.0
        elif not self._gap_since:
            self._gap_since = self._now()
        elif self._now() - self._gap_since >= LATE_SECONDS:
            self._gap_since = 0.0
            try:
                await self._read(gaps)
            except AWAY as error:
                self._ill("database", error)

    async def _look(self) -> None:
        self._looked_at = self._now()
        try:
            if not self._ready.done():
                await self._begin()
                return
            heads = await self._ask(self._source.moved)
            await self._read(heads.lasts)
        except AWAY as error:
            # Also when only a page of the run's end failed: its readers wait for the rest, and are not ended before it.
            self._ill("database", error)
            return
        self._well("database")
        if heads.over:
            self._close()

    async def _begin(self) -> None:
        try:
            heads = await self._ask(self._source.all)
        except AWAY as error:
            self._close(error)
            return
        self.order = Order(heads.lasts)
        self.ring.clear(max(heads.lasts.values(), default=0))
        self.over = heads.over
        self._ready.set_result(None)

    async def _read(self, runs: Mapping[str, int]) -> None:
        """Reads runs up to these sequences. Raises one of AWAY with some of them not read."""
        for run_id, upto in runs.items():
            while (position := self.order.positions.get(run_id, 0)) < upto:
                self._put(await self._page(run_id, position, upto))

    async def _page(self, run_id: str, position: int, upto: int) -> list[Envelope]:
        try:
            rows: list[Envelope] = await self._ask(self._source.read, run_id, position, BATCH)
            gone = upto if not rows else rows[0].sequence - 1  # type: ignore[operator]
        except HistoryTrimmed as trimmed:
            rows, gone = [], trimmed.trimmed
        if gone > position:
            # Readers that had not read it are told so when they look for it in the database.
            self.order.skip(run_id, gone)
            self.ring.clear(gone)
        return rows

    def _ill(self, what: str, error: Exception) -> None:
        """Says once that something is away."""
        if what not in self._troubles:
            self._troubles.add(what)
            log.warning("events.away", what=what, error=f"{type(error).__name__}: {error}".splitlines()[0])

    def _well(self, what: str) -> None:
        if what in self._troubles:
            self._troubles.discard(what)
            log.info("events.back", what=what)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
