"""Pages of stored events that readers share: read once, never stale, never in the way."""

from __future__ import annotations

import asyncio

import pytest

from chordesk.models.errors import DatabaseDown, HistoryTrimmed
from chordesk.models.events import Envelope, EventType, event
from chordesk.tasks.events.feed import PAGE, Pages
from tests.tasks.events.kit import sequences


def stored(run: str, sequence: int) -> Envelope:
    return event(EventType.ITEM_COMPLETED, run).at(sequence)


class Log:
    """A stored log of one run, and how often it was asked."""

    def __init__(self, last: int, trimmed: int = 0) -> None:
        self.last, self.trimmed = last, trimmed
        self.reads: list[int] = []
        self.away = False

    async def read(self, run_id: str, after: int, limit: int) -> list[Envelope]:
        self.reads.append(after)
        last = self.last
        await asyncio.sleep(0)
        if self.away:
            raise DatabaseDown("away")
        if after < self.trimmed:
            raise HistoryTrimmed(run_id, after, self.trimmed, last)
        return [stored(run_id, sequence) for sequence in range(after + 1, min(after + limit, last) + 1)]


def after(pages: Pages, position: int) -> list[int | None]:
    return sequences(asyncio.run(pages.after("r", position)))


def both(pages: Pages, first: int, second: int) -> list[list[Envelope]]:
    async def main() -> list[list[Envelope]]:
        return await asyncio.gather(pages.after("r", first), pages.after("r", second))

    return asyncio.run(main())


def test_a_full_page_is_read_once_for_all_readers_wherever_they_are_in_it() -> None:
    log = Log(3 * PAGE)
    pages = Pages(log.read)
    one, two = both(pages, 0, 10)
    assert (sequences(one), sequences(two)) == (list(range(1, PAGE + 1)), list(range(11, PAGE + 1)))
    assert after(pages, PAGE - 1) == [PAGE]
    assert log.reads == [0]
    assert after(pages, PAGE)[0] == PAGE + 1
    assert log.reads == [0, PAGE]


def test_a_page_that_was_asked_for_before_the_event_is_not_the_answer() -> None:
    """The second reader knows of event 11; the page that the first one waits for ends with 10."""
    log = Log(10)
    pages = Pages(log.read)

    async def main() -> list[Envelope]:
        first = asyncio.create_task(pages.after("r", 0))
        await asyncio.sleep(0)
        log.last = 11
        found = await pages.after("r", 10)
        await first
        return found

    assert sequences(asyncio.run(main())) == [11]


def test_events_are_there_although_the_beginning_of_their_page_was_trimmed() -> None:
    log = Log(PAGE, trimmed=100)
    pages = Pages(log.read)
    assert after(pages, 100) == list(range(101, PAGE + 1))
    with pytest.raises(HistoryTrimmed):
        after(pages, 99)
