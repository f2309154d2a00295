"""Feed of events for readers: stored ones first, then live, each run's in order, without a gap or a repeat.

Events come from the database alone. One task looks every POLL_SECONDS which runs have new ones, however many readers
there are, and wakes the readers of those runs.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import redis
import structlog
from sqlalchemy import func, or_
from sqlmodel import Session, col, select

from chordesk.models import event_log
from chordesk.models.database.store import AWAY, Store
from chordesk.models.errors import DatabaseDown, HistoryTrimmed, NotFound, UsageError
from chordesk.models.events import DESK, Envelope, EventType
from chordesk.models.market import plain_name
from chordesk.models.settings import REPLAYING
from chordesk.models.states import ORDER_OPEN, RUN_FINAL, ApprovalState, OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import EventBatch, EventHead, RuntimeApproval
from chordesk.tasks.events.deltas import listen, listening_client

# How long an event may take from the moment at which it occurs to its commit, with the difference of two hosts' clocks.
SLACK = dt.timedelta(minutes=10)
FORM = r"^[0-9]{1,15}(,[0-9A-Za-z_.-]{1,64}:[0-9]{1,16})*$"
LONGEST = 60_000  # characters: some 1,500 runs that moved within twice the slack
_FORM = re.compile(FORM[1:-1])
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
_LAST = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
_AT_ONCE = 400  # runs in one query: databases bound the number of parameters


@dataclass(frozen=True, slots=True)
class DeskPlace:
    at: dt.datetime  # the reader had everything that was committed then, of the runs that places does not name
    places: Mapping[str, int] = field(default_factory=dict)  # the last sequence that it has, by run

    @property
    def horizon(self) -> dt.datetime:
        """The moment before which a run that is not named had its last event."""
        return self.at - SLACK

    @property
    def is_start(self) -> bool:
        return self.at == _EPOCH

    @classmethod
    def parse(cls, text: str) -> DeskPlace:
        if len(text) > LONGEST or _FORM.fullmatch(text) is None:
            raise UsageError(f"{text[:40]!r} is no place in the events", remedy="send an id that the stream gave, or 0")
        moment, *named = text.split(",")
        at = _EPOCH + dt.timedelta(milliseconds=int(moment))
        pairs = (one.split(":") for one in named)
        return cls(min(at, _LAST), {run_id: int(last) for run_id, last in pairs})

    def __str__(self) -> str:
        moment = str((self.at - _EPOCH) // dt.timedelta(milliseconds=1))
        return ",".join((moment, *(f"{run_id}:{last}" for run_id, last in self.places.items())))


@dataclass(slots=True)
class ReaderProgress:
    """What one reader has."""

    positions: dict[str, int]  # the last sequence it has, by run
    at: dt.datetime  # as of a place
    moved: dict[str, dt.datetime]  # when it got the last event of a run that it must name

    def got(self, run_id: str, sequence: int, now: dt.datetime) -> None:
        self.positions[run_id], self.moved[run_id] = sequence, now

    def caught_up(self, at: dt.datetime) -> None:
        if at <= self.at:
            return
        self.at = at
        rested = [run_id for run_id, moved in self.moved.items() if moved < at - 2 * SLACK]
        for run_id in rested:
            del self.moved[run_id]

    def place(self) -> DeskPlace:
        return DeskPlace(self.at, {run_id: self.positions.get(run_id, 0) for run_id in self.moved})


def progress(session: Session, place: DeskPlace | None) -> ReaderProgress:
    """What a reader has at a place; without one, everything up to now. Raises UsageError, HistoryTrimmed."""
    now = utcnow()
    heads = session.exec(select(EventHead)).all()
    if place is None:
        recent = {head.run_id: head.updated_at for head in heads if head.updated_at >= now - 2 * SLACK}
        return ReaderProgress({head.run_id: head.last for head in heads}, now, recent)
    if place.at > now + SLACK:
        raise UsageError(f"the place {str(place)[:40]!r} is of a later time", remedy="send an id that the stream gave")
    moved = [head for head in heads if head.run_id not in place.places and head.updated_at >= place.horizon]
    return resumed(place, heads, _stored_before(session, place.horizon, moved))


def resumed(place: DeskPlace, heads: Iterable[EventHead], before: Mapping[str, int]) -> ReaderProgress:
    """Return the progress of a reader that goes on from a place. before: of the runs that moved since a place that does
    not name them, the last sequence that was stored before the place's horizon; a run that had none then is left out.
    Raises UsageError for a sequence that a run does not have, HistoryTrimmed rather than leave a gap."""
    positions = {}
    for head in heads:
        named = place.places.get(head.run_id)
        if named is not None and named > head.last:
            reason = f"run {head.run_id} has events 1 to {head.last}: {named} is none of them"
            raise UsageError(reason, remedy="0 is before the first")
        if named is None and head.updated_at < place.horizon:
            positions[head.run_id] = head.last
            continue
        after = before.get(head.run_id, 0) if named is None else named
        if after < head.trimmed and not place.is_start:
            raise HistoryTrimmed(head.run_id, after, head.trimmed, head.last)
        positions[head.run_id] = max(after, head.trimmed)
    return ReaderProgress(positions, place.at, {run_id: place.at for run_id in place.places if run_id in positions})


def _stored_before(session: Session, horizon: dt.datetime, heads: Sequence[EventHead]) -> dict[str, int]:
    found: dict[str, int] = {}
    names = [head.run_id for head in heads]
    for start in range(0, len(names), _AT_ONCE):
        some = col(EventBatch.run_id).in_(names[start : start + _AT_ONCE])
        before = select(EventBatch.run_id, func.max(EventBatch.last)).where(some, EventBatch.newest_at < horizon)
        rows = session.exec(before.group_by(EventBatch.run_id)).all()
        found |= {run_id: int(last) for run_id, last in rows}
    return found


log = structlog.get_logger(__name__)

POLL_SECONDS = 0.3
AWAY_SECONDS = 1.0
# How often a reader asks whether a run is over: after its end it may wait for orders and approvals, without an event.
ENDED_SECONDS = 1.0
OPEN_SECONDS = 60.0
BATCH = 500
PAGE = 250  # events
PAGES = 32
DELTAS_MOST = 2_000  # held for a reader that is slow; the oldest are dropped
THREADS = 4  # readers of the database wait for each other here, and delay nothing else

T = TypeVar("T")
_RESTING = frozenset({OrderState.SUBMITTED, OrderState.PARTIALLY_FILLED})
# Returns the first events of a run after a sequence, up to a number of them.
ReadEvents = Callable[[str, int, int], Awaitable[list[Envelope]]]


def is_over(session: Session, run_id: str) -> bool:
    """Return whether no more events of a run will come: it has ended, none of its orders is open, and no request of it
    waits for a person; or it was deleted. In a market of past days an order that was sent rests until somebody lets the
    next session come, and holds nothing up. The desk's own events, which belong to no run, are never over."""
    return _ending(session, run_id)[1]


def _ending(session: Session, run_id: str) -> tuple[bool, bool]:
    if run_id == DESK:
        return False, False
    found = session.exec(select(Run.state, Run.market).where(Run.id == run_id)).one_or_none()
    state, market = found or (None, "")  # deleted
    ended = state is None or state in RUN_FINAL
    return ended, ended and not _has_open_work(session, run_id, market)


def _has_open_work(session: Session, run_id: str, market: str) -> bool:
    pending = ApprovalState.PENDING.value
    rests = _RESTING if plain_name(market) in REPLAYING else frozenset()
    orders = (
        select(Order.id)
        .join(Approval, col(Approval.order_id) == col(Order.id), isouter=True)
        .where(Order.run_id == run_id, or_(col(Order.state).in_(ORDER_OPEN - rests), col(Approval.state) == pending))
    )
    requests = select(RuntimeApproval.id).where(RuntimeApproval.run_id == run_id, RuntimeApproval.state == pending)
    return bool(session.exec(select(or_(orders.exists(), requests.exists()))).one())


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


class Placed(NamedTuple):
    """An event of any run, and the place after it; the place alone where there is no event."""

    event: Envelope | None
    place: str


class Closed(Exception):
    """The feed is closed, and its readers end."""


class _Reader:
    """run_id: None for all runs. news: set when there may be events, or deltas, that the reader lacks."""

    def __init__(self, run_id: str | None, deltas: bool) -> None:
        self.run_id, self.wants_deltas = run_id, deltas
        self.news = asyncio.Event()
        self._deltas: deque[Envelope] = deque(maxlen=DELTAS_MOST)

    def offer(self, delta: Envelope) -> None:
        if self.wants_deltas and self.run_id in (None, delta.run_id):
            self._deltas.append(delta)
            self.news.set()

    def deltas(self) -> Iterator[Envelope]:
        while self._deltas:
            yield self._deltas.popleft()


class Feed:
    """Feed of the desk's events for any number of readers of one event loop. Making one does no I/O; `close` ends all
    readers, and so does the end of `async with`.

    Each reader reads the database at its own pace and delays no other. redis_url: brings deltas; None when there is no
    Redis. A reader that stops before the end has to close the iterator (`contextlib.aclosing`).
    """

    def __init__(self, store: Store, redis_url: str | None) -> None:
        self._store = store
        self._redis = listening_client(redis_url) if redis_url is not None else None
        self._threads = ThreadPoolExecutor(THREADS, "feed")
        self._pages = Pages(self._read)
        self._readers: set[_Reader] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        self._lasts: dict[str, int] = {}  # the last sequence of each run, as of the last look at the database
        self._looked_at: dt.datetime | None = None

    async def check(self, run_id: str, after: int = 0) -> None:
        """Raises NotFound for an unknown run, UsageError for a sequence that it lacks, HistoryTrimmed, DatabaseDown."""
        await self.page(run_id, after, 1)

    async def page(self, run_id: str, after: int = 0, limit: int = BATCH) -> list[Envelope]:
        return await self._query(_checked, run_id, after, limit)

    async def follow(self, run_id: str, after: int = 0, *, deltas: bool = False) -> AsyncGenerator[Envelope]:
        """Yield every event of a run after a sequence; end when no more will come (`is_over`) and all stored events are
        delivered.

        run_id: a run, or DESK for the events of none, which never end. deltas: also yield the deltas of live turns,
        between the events, from now on.
        Raises as `check` does, at the first event, when a slow reader needs events that were trimmed meanwhile, or at
        the end of a run that was deleted.
        """
        with suppress(Closed), self._reading(run_id, deltas) as reader:
            await self.check(run_id, after)
            ended, over = True, False  # whether it had ended before is asked first
            while True:
                reader.news.clear()
                if ended:
                    ended, over = await self._patiently(self._query, _ending, run_id)
                rows = await self._after(run_id, after)
                for delta in reader.deltas():
                    yield delta
                for one in rows:
                    after = one.sequence or after
                    ended = ended or one.type is EventType.RUN_COMPLETED
                    yield one
                if not rows and over:
                    if not await self._query(_has_more, run_id, after):
                        return
                    continue
                if not rows or self._lasts.get(run_id, 0) <= after:
                    await self._news(reader, ENDED_SECONDS if ended else OPEN_SECONDS)

    async def follow_desk(self, *, deltas: bool = False) -> AsyncGenerator[Envelope]:
        """From now on, without end; each run's events in order and without a gap. Raises HistoryTrimmed,
        DatabaseDown."""
        async with aclosing(self.follow_all(None, deltas=deltas)) as placed:
            async for one in placed:
                if one.event is not None:
                    yield one.event

    async def check_place(self, place: DeskPlace | None) -> None:
        await self._query(progress, place)

    async def follow_all(self, place: DeskPlace | None, *, deltas: bool = False) -> AsyncGenerator[Placed]:
        """Yield the events of all runs, and of none, after a place, without one from now on; never end. First comes the
        place itself, without an event. Each run's events are in order, without a gap or a repeat. Raises as
        `check_place` does, also when a slow reader needs events that were trimmed meanwhile."""
        with suppress(Closed), self._reading(None, deltas) as reader:
            has = await self._query(progress, place)
            yield Placed(None, str(has.place()))
            while True:
                reader.news.clear()
                looked_at = self._looked_at
                for delta in reader.deltas():
                    yield Placed(delta, str(has.place()))
                for run_id, upto in self._ahead_of(has):
                    while (position := has.positions.get(run_id, 0)) < upto:
                        rows = await self._after(run_id, position)
                        if not rows:
                            raise HistoryTrimmed(run_id, position, upto, upto)
                        for one in rows:
                            has.got(run_id, one.sequence or 0, utcnow())
                            yield Placed(one, str(has.place()))
                if looked_at is not None:
                    has.caught_up(looked_at)
                await self._news(reader, None)

    async def close(self) -> None:
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        for reader in self._readers:
            reader.news.set()
        self._threads.shutdown(wait=False)
        if self._redis is not None:
            await self._redis.aclose()

    async def __aenter__(self) -> Feed:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @contextmanager
    def _reading(self, run_id: str | None, deltas: bool) -> Iterator[_Reader]:
        reader = _Reader(run_id, deltas)
        self._readers.add(reader)
        self._start("heads", self._look)
        if deltas and self._redis is not None:
            self._start("deltas", self._listen)
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    async def _news(self, reader: _Reader, seconds: float | None) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.news.wait(), seconds)
        if self._closed:
            raise Closed

    def _start(self, name: str, work: Callable[[], Any]) -> None:
        if name not in self._tasks or self._tasks[name].done():
            self._tasks[name] = asyncio.create_task(work())

    def _ahead_of(self, has: ReaderProgress) -> list[tuple[str, int]]:
        return [(run_id, last) for run_id, last in self._lasts.items() if last > has.positions.get(run_id, 0)]

    async def _look(self) -> None:
        since = dt.datetime.min.replace(tzinfo=dt.UTC)
        away = False
        while self._readers and not self._closed:
            begun = utcnow()
            try:
                found = await self._in_thread(_heads, since)
            except AWAY as error:
                if not away:
                    log.warning("events.away", error=f"{type(error).__name__}: {error}".splitlines()[0])
                away = True
                await asyncio.sleep(AWAY_SECONDS)
                continue
            if away:
                away = False
                log.info("events.back")
            # A head's time is its writer's clock before the commit.
            since, self._looked_at = begun - SLACK, begun
            self._wake({run_id for run_id, last in found if self._lasts.get(run_id) != last})
            self._lasts.update(found)
            await asyncio.sleep(POLL_SECONDS)

    def _wake(self, moved: set[str]) -> None:
        for reader in self._readers:
            if reader.run_id in moved or (reader.run_id is None and moved):
                reader.news.set()

    async def _listen(self) -> None:
        assert self._redis is not None
        while self._wants_deltas():
            with suppress(redis.RedisError, OSError):
                async for delta in listen(self._redis, self._wants_deltas):
                    for reader in self._readers:
                        reader.offer(delta)
            await asyncio.sleep(AWAY_SECONDS)

    def _wants_deltas(self) -> bool:
        return not self._closed and any(reader.wants_deltas for reader in self._readers)

    async def _after(self, run_id: str, position: int) -> list[Envelope]:
        return await self._patiently(self._pages.after, run_id, position)

    async def _patiently(self, do: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        while True:
            try:
                return await do(*arguments)
            except DatabaseDown:
                await asyncio.sleep(AWAY_SECONDS)

    async def _read(self, run_id: str, after: int, limit: int) -> list[Envelope]:
        return await self._query(event_log.read, run_id, after, limit)

    async def _query(self, do: Callable[..., T], *arguments: Any) -> T:
        try:
            return await self._in_thread(do, *arguments)
        except AWAY as error:
            raise DatabaseDown(f"the events cannot be read: {type(error).__name__}") from error

    async def _in_thread(self, do: Callable[..., T], *arguments: Any) -> T:
        if self._closed:
            raise Closed

        def query() -> T:
            with self._store.read() as session:
                return do(session, *arguments)

        return await asyncio.get_running_loop().run_in_executor(self._threads, query)


def _heads(session: Session, since: dt.datetime) -> Sequence[tuple[str, int]]:
    return session.exec(select(EventHead.run_id, EventHead.last).where(col(EventHead.updated_at) >= since)).all()


def _checked(session: Session, run_id: str, after: int, limit: int) -> list[Envelope]:
    last = event_log.head(session, run_id)[1]
    if not last:
        _require_run(session, run_id)
    if not 0 <= after <= last:
        raise UsageError(
            f"run {run_id} has events 1 to {last}: {after} is none of them", remedy="0 is before the first"
        )
    return event_log.read(session, run_id, after, limit)


def _has_more(session: Session, run_id: str, after: int) -> bool:
    """Raises NotFound for a run that was deleted, HistoryTrimmed for deleted events."""
    _require_run(session, run_id)
    rows = event_log.read(session, run_id, after, 1)
    last = event_log.head(session, run_id)[1]
    if not rows and last > after:
        raise HistoryTrimmed(run_id, after, last, last)
    return bool(rows)


def _require_run(session: Session, run_id: str) -> None:
    if run_id != DESK and session.get(Run, run_id) is None:
        raise NotFound(f"there is no run {run_id!r}", remedy="`desk runs list` shows them")
