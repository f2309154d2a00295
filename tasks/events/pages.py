"""Pages of stored events, read once for all readers that go on from the database at the same time."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from models.errors import HistoryTrimmed
from models.events import Envelope

PAGE = 250  # events
PAGES = 32

# The first events of a run after a sequence, so many at the most.
Read = Callable[[str, int, int], Awaitable[list[Envelope]]]


class Pages:
    """What is stored does not change: a page that is full is kept for the next reader, the least used one goes."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._pages: OrderedDict[tuple[str, int], asyncio.Future[list[Envelope]]] = OrderedDict()

    async def after(self, run_id: str, position: int) -> list[Envelope]:
        """The next events of a run after a sequence, a page at the most. Raises what `read` raises."""
        start = position - position % PAGE
        try:
            rows = await self._page(run_id, start)
        except HistoryTrimmed:
            rows = []  # the page's beginning is gone; what is asked for may be there
        following = rows[bisect_right(rows, position, key=lambda one: one.sequence or 0) :]
        # The last page may have been read before what is asked for was stored.
        return following or await self._read(run_id, position, PAGE)

    async def _page(self, run_id: str, start: int) -> list[Envelope]:
        key = (run_id, start)
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = asyncio.ensure_future(self._read(run_id, start, PAGE))
            page.add_done_callback(lambda done: self._settle(key, done))
        self._pages.move_to_end(key)
        return await asyncio.shield(page)

    def _settle(self, key: tuple[str, int], done: asyncio.Future[list[Envelope]]) -> None:
        if done.cancelled() or done.exception() is not None or len(done.result()) < PAGE:
            self._pages.pop(key, None)
        while len(self._pages) > PAGES:
            self._pages.popitem(last=False)
