"""One reader: from where it is to the live end, out of the database and the ring."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator

from models.errors import HistoryTrimmed
from models.events import Envelope
from tasks.events.tail import BATCH, Tail

# A page of a run's stored events after a sequence.
Page = Callable[[str, int], Awaitable[list[Envelope]]]


async def read_on(tail: Tail, page: Page, positions: dict[str, int], cursor: int | None) -> AsyncGenerator[Envelope]:
    """What comes after these positions, deltas too; ends when the tail is over and all of it was given.

    positions: the last sequence that the reader has, by run; kept up to date. cursor: its place in the tail's ring,
    None when what it has not read is not all there. Raises HistoryTrimmed.
    """
    while True:
        events = tail.ring.since(cursor, BATCH) if cursor is not None else None
        if events is None or cursor is None:
            # First the place to go on from, then what lies before it.
            cursor, behind = tail.ring.end, tail.behind(positions)
            for run_id, upto in behind.items():
                while (position := positions.get(run_id, 0)) < upto:
                    rows = await page(run_id, position)
                    if not rows:
                        raise HistoryTrimmed(run_id, position, upto, upto)
                    for one in _fresh(rows, positions):
                        yield one
            continue
        cursor += len(events)
        for one in _fresh(events, positions):
            yield one
        if not events:
            if tail.over:
                if tail.error is not None:
                    raise tail.error
                return
            await tail.ring.changed()


def _fresh(events: Iterable[Envelope], positions: dict[str, int]) -> Iterator[Envelope]:
    """What the reader does not have yet. Raises HistoryTrimmed rather than leave something out."""
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
