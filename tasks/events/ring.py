"""The newest events in memory, for any number of readers, each with a cursor of its own."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence

from models.events import Envelope


class Ring:
    """A cursor counts what was ever put in. size: how many events are kept at least; twice as many at the most.

    For the loop of its readers.
    """

    def __init__(self, size: int, base: int = 0) -> None:
        """base: the sequence that the first event, of a run's own ring, goes on from."""
        self._size = size
        self._start = 0
        self._events: list[Envelope] = []
        self._base = base
        # Of each event its sequence, or that of the last one before it: ascending in a run's own ring.
        self._marks: list[int] = []
        self._changed = asyncio.Event()

    @property
    def end(self) -> int:
        """The cursor of who has read all."""
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
            self._forget(len(self._events) - self._size)
        self.wake()

    def since(self, cursor: int, most: int) -> list[Envelope] | None:
        """What follows a cursor, `most` events of it; None when some of that is no longer here."""
        place = cursor - self._start
        return None if place < 0 else self._events[place : place + most]

    def find(self, sequence: int) -> int | None:
        """In a run's own ring: the cursor after this sequence; None when what follows it is not all here."""
        return None if sequence < self._base else self._start + bisect_right(self._marks, sequence)

    def clear(self, base: int) -> None:
        """Forget all; what comes next does not go on from what was here. No cursor from before is good any more."""
        self._forget(len(self._events))
        self._start += 1
        self._base = base
        self.wake()

    def wake(self) -> None:
        """Have all that wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Until something was put in, or `wake`."""
        await self._changed.wait()

    def _forget(self, count: int) -> None:
        if count:
            self._base = self._marks[count - 1]
        del self._events[:count], self._marks[:count]
        self._start += count
