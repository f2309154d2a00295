"""One reader of events, from its position to the live end, out of stored pages and the ring."""

from __future__ import annotations

import asyncio
import datetime as dt
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator

from chordesk.models.errors import HistoryTrimmed
from chordesk.models.events.envelope import Envelope
from chordesk.tasks.events.tail import BATCH, Tail

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
