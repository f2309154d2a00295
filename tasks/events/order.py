"""Order of events for readers: a sequencer that puts them in order, and a ring of the newest. Neither does I/O."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from chordesk.models.events.envelope import Envelope

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
