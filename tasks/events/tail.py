"""The live end of a run's events, or of the whole desk's: one task for all readers of a process."""

from __future__ import annotations

import asyncio
import datetime as dt
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import redis.exceptions
import structlog

from chordesk.models.errors import HistoryTrimmed
from chordesk.models.events import Envelope, EventType
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.events.sources import AWAY, Heads, Source
from chordesk.tasks.events.streams import Stream

# Events held until the missing ones before them arrive. More of one run than this are read again from the database.
HELD_MOST = 256


class EventSequencer:
    """Orders each run's events by sequence, without repeats. positions: the last sequence released, by run; 0 for a run
    that has none."""

    def __init__(self, positions: Mapping[str, int]) -> None:
        self.positions = dict(positions)
        self._held: dict[str, dict[int, Envelope]] = defaultdict(dict)
        self._last: dict[str, int] = {}

    def take(self, events: Iterable[Envelope]) -> list[Envelope]:
        """Return those of these events, and of the held ones, that follow the released ones. A delta has no sequence
        and is released at once."""
        ready: list[Envelope] = []
        for one in events:
            if one.sequence is None:
                ready.append(one)
                continue
            position = self.positions.get(one.run_id, 0)
            if one.sequence == position + 1:
                ready.append(one)
                self.positions[one.run_id] = one.sequence
                ready += self._release(one.run_id)
            elif one.sequence > position:
                self._hold(one, one.sequence)
        return ready

    def gaps(self) -> dict[str, int]:
        """Return the runs that miss events, with the last sequence that is known of each."""
        return dict(self._last)

    def skip(self, run_id: str, upto: int) -> None:
        """Pass over events up to this sequence, which can no longer be read."""
        if upto > self.positions.get(run_id, 0):
            self.positions[run_id] = upto
            self._forget(run_id)

    def _hold(self, one: Envelope, sequence: int) -> None:
        held = self._held[one.run_id]
        if len(held) < HELD_MOST:
            held[sequence] = one
        self._last[one.run_id] = max(sequence, self._last.get(one.run_id, 0))

    def _release(self, run_id: str) -> list[Envelope]:
        released: list[Envelope] = []
        held = self._held.get(run_id)
        while held and (following := held.pop(self.positions[run_id] + 1, None)) is not None:
            released.append(following)
            self.positions[run_id] += 1
        self._forget(run_id)
        return released

    def _forget(self, run_id: str) -> None:
        """Forget the gap of a run that has none any more."""
        if self._last.get(run_id, 0) <= self.positions[run_id]:
            self._last.pop(run_id, None)
            self._held.pop(run_id, None)


class Ring:
    """The newest events, for any number of readers of one loop, each with a cursor of its own. A cursor counts all
    events that were ever put in. size: how many events are kept at least; at most twice as many."""

    def __init__(self, size: int, base: int = 0) -> None:
        """base: the sequence before the first event, of a run's own ring."""
        self._size = size
        self._start = 0
        self._events: list[Envelope] = []
        self._base = base
        # Each event's sequence, or that of the last one before it: ascending in a run's own ring.
        self._marks: list[int] = []
        self._changed = asyncio.Event()

    @property
    def end(self) -> int:
        """The cursor after the last event."""
        return self._start + len(self._events)

    def put(self, events: Sequence[Envelope]) -> None:
        if not events:
            return
        mark = self._marks[-1] if self._marks else self._base
        for one in events:
            mark = one.sequence if one.sequence is not None else mark
            self._marks.append(mark)
        self._events += events
        if len(self._events) >= 2 * self._size:
            self._drop(len(self._events) - self._size)
        self.wake()

    def since(self, cursor: int, most: int) -> list[Envelope] | None:
        """Return up to `most` events after a cursor; None when some of them are no longer kept."""
        place = cursor - self._start
        return None if place < 0 else self._events[place : place + most]

    def find(self, sequence: int) -> int | None:
        """Return the cursor after this sequence of a run's own ring; None when what follows it is not all kept."""
        return None if sequence < self._base else self._start + bisect_right(self._marks, sequence)

    def clear(self, base: int) -> None:
        """Drop all events and invalidate all cursors; the next event follows the sequence `base`."""
        self._drop(len(self._events))
        self._start += 1
        self._base = base
        self.wake()

    def wake(self) -> None:
        """Wake all readers that wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait until events are put in, or `wake` is called."""
        await self._changed.wait()

    def _drop(self, count: int) -> None:
        if count:
            self._base = self._marks[count - 1]
        del self._events[:count], self._marks[:count]
        self._start += count


log = structlog.get_logger(__name__)

CHECK_SECONDS = 1.0  # between two checks of the database, for events that a stream has dropped
LATE_SECONDS = 0.02  # how long a missing event may come late, from another process, before it is read
BATCH = 500
RING = 2_000
_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)

# Runs a function that waits for the database off the loop, and returns its result.
InThread = Callable[..., Awaitable[Any]]


class Closed(Exception):
    """The feed is closed, and its readers end."""


class Tail:
    """Task that puts events in order into a ring as they happen. They come from the stream, if there is one; the
    database is checked for events that the stream may drop: between two others, and the last ones.

    Belongs to the loop of its readers. over: no more events will come; error: the reason, when the run has not ended.
    """

    def __init__(self, source: Source, stream: Stream | None, in_thread: InThread, ring: int = RING) -> None:
        self.readers = 0
        self.over = False
        self.error: Exception | None = None
        self.ring = Ring(ring)
        self.order = EventSequencer({})
        self._source, self._stream, self._in_thread = source, stream, in_thread
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.confirmed_at = _LONG_AGO  # what was committed then is in the ring, or was before the first of it
        self._checked_at = self._gap_since = 0.0
        self._outages: set[str] = set()
        self._task = asyncio.create_task(self._run())

    async def ready(self) -> None:
        """Wait until the last sequences are known. Raises the database's error when they cannot be read."""
        await asyncio.shield(self._ready)

    def end(self) -> None:
        """End the task; its readers get the events in the ring, and then end."""
        self._task.cancel()
        self._close()

    def behind(self, positions: Mapping[str, int]) -> dict[str, int]:
        """Return the last sequences of the runs that are ahead of a reader."""
        return {run: last for run, last in self.order.positions.items() if last > positions.get(run, 0)}

    async def _run(self) -> None:
        try:
            while not self.over:
                if self._stream is not None:
                    await self._follow(self._stream)
                await self._check()
                if not self.over:
                    await asyncio.sleep(CHECK_SECONDS)
        except Closed:
            self._close()
        except Exception as error:
            log.exception("events.broke")
            self._close(error)

    def _close(self, error: Exception | None = None) -> None:
        """error: the reason, when the run has not ended."""
        self.over, self.error = True, error
        if not self._ready.done():
            self._ready.set_exception(error or Closed())
            self._ready.exception()  # there may be no reader to retrieve it
        self.ring.wake()

    async def _follow(self, stream: Stream) -> None:
        """Read the stream while Redis answers and more events may come."""
        try:
            # In this order: an event that is not stored yet at the check comes after the end of the stream.
            await stream.to_end()
            await self._check()
            self._available("redis")
            while not self.over:
                wait = LATE_SECONDS if self.order.gaps() else CHECK_SECONDS
                ended = self._put(await stream.following(BATCH, wait))
                await self._fill_gaps()
                if ended or self._now() - self._checked_at >= CHECK_SECONDS:
                    await self._check()
        except (redis.exceptions.RedisError, OSError) as error:
            self._unavailable("redis", error)

    def _put(self, events: list[Envelope]) -> bool:
        """Return whether a run's end is among them: then the database is checked for more."""
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
                self._unavailable("database", error)

    async def _check(self) -> None:
        self._checked_at, begun = self._now(), utcnow()
        try:
            heads = await self._in_thread(self._source.heads)
            if not self._ready.done():
                self.confirmed_at = begun
                self._begin(heads)
                return
            await self._read(heads.lasts)
            self.confirmed_at = begun
        except AWAY as error:
            if self._ready.done():
                # Also when only a page at the run's end failed: its readers wait for the rest before they end.
                self._unavailable("database", error)
            else:
                self._close(error)
            return
        self._available("database")
        if heads.over:
            self._close()

    def _begin(self, heads: Heads) -> None:
        self.order = EventSequencer(heads.lasts)
        self.ring.clear(max(heads.lasts.values(), default=0))
        self.over = heads.over
        self._ready.set_result(None)

    async def _read(self, runs: Mapping[str, int]) -> None:
        """Read runs up to these sequences. Raises one of AWAY with some of them not read."""
        for run_id, upto in runs.items():
            while (position := self.order.positions.get(run_id, 0)) < upto:
                self._put(await self._page(run_id, position, upto))

    async def _page(self, run_id: str, position: int, upto: int) -> list[Envelope]:
        try:
            rows: list[Envelope] = await self._in_thread(self._source.read, run_id, position, BATCH)
            gone = upto if not rows else rows[0].sequence - 1  # type: ignore[operator]
        except HistoryTrimmed as trimmed:
            rows, gone = [], trimmed.trimmed
        if gone > position:
            # Readers that had not read it get HistoryTrimmed from the database.
            self.order.skip(run_id, gone)
            self.ring.clear(gone)
        return rows

    def _unavailable(self, what: str, error: Exception) -> None:
        """Log the first failure of a service."""
        if what not in self._outages:
            self._outages.add(what)
            log.warning("events.away", what=what, error=f"{type(error).__name__}: {error}".splitlines()[0])

    def _available(self, what: str) -> None:
        if what in self._outages:
            self._outages.discard(what)
            log.info("events.back", what=what)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
