"""Recorder of the events and lifecycles that a process's runtimes report: one buffer, one writer thread.

A step that ends takes its waiting events into its own transaction, so that they come before its end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import structlog
from sqlmodel import Session

from chordesk.agents.runtime import Lifecycle, Scope
from chordesk.models import event_log
from chordesk.models.database.store import Store, is_lost
from chordesk.models.events import Envelope, EventType
from chordesk.tasks.events import lifecycles
from chordesk.tasks.events.deltas import DeltaPublisher
from chordesk.tasks.events.lifecycles import Key, Row

QUEUED_MOST = 20_000  # events, and rows of lifecycles
BATCH = 500  # events of one transaction; more when they are of one step


@dataclass(slots=True)
class EventBuffer:
    """Events by step, in order, and the last row of each lifecycle."""

    events: dict[str, list[Envelope]] = field(default_factory=dict)
    rows: dict[Key, Row] = field(default_factory=dict)
    count: int = 0

    def __bool__(self) -> bool:
        return bool(self.events or self.rows)

    def add(self, scope: Scope, events: Sequence[Envelope], changed: Sequence[Lifecycle] = ()) -> int:
        """Add what there is room for, and return how many events were dropped."""
        kept = events[: max(QUEUED_MOST - self.count, 0)]
        if kept:
            self.events.setdefault(scope.step_id, []).extend(kept)
            self.count += len(kept)
        for one in changed:
            key = lifecycles.key_of(one)
            if key in self.rows or len(self.rows) < QUEUED_MOST:
                self.rows[key] = lifecycles.row_of(one, scope.run_id)
        return len(events) - len(kept)

    def take_step(self, step_id: str) -> list[Envelope]:
        events = self.events.pop(step_id, [])
        self.count -= len(events)
        return events

    def take(self) -> EventBuffer:
        taken = EventBuffer(rows=self.rows)
        self.rows = {}
        while self.events and taken.count < BATCH:
            step_id = next(iter(self.events))
            taken.events[step_id] = self.take_step(step_id)
            taken.count += len(taken.events[step_id])
        return taken

    def put_back(self, taken: EventBuffer) -> None:
        """Put unwritten events before those that were added since."""
        for step_id, events in self.events.items():
            taken.events.setdefault(step_id, []).extend(events)
        self.events, self.rows = taken.events, taken.rows | self.rows
        self.count += taken.count

    def singly(self) -> Iterator[EventBuffer]:
        """Yield each event and each row by itself."""
        for step_id, events in self.events.items():
            yield from (EventBuffer({step_id: [one]}, count=1) for one in events)
        yield from (EventBuffer(rows={key: row}) for key, row in self.rows.items())

    def types(self) -> list[str]:
        return [one.type for events in self.events.values() for one in events]

    def write(self, session: Session) -> None:
        for events in self.events.values():
            event_log.append(session, events)
        lifecycles.write(session, self.rows)


log = structlog.get_logger(__name__)

PAUSE_SECONDS = 0.2  # between two transactions; an event after a longer pause is written at once
AWAY_SECONDS = 1.0


class Recorder:
    """Observer of the runtimes of a process. Threads may share it; its own thread starts with the first event.

    Waiting events have no sequence: one that is dropped because the database is away for too long leaves no gap.
    deltas: publishes deltas, which are never stored; None drops them. dropped: number of events that were not stored,
    because the buffer was full or the database refused them.
    """

    def __init__(self, store: Store, deltas: DeltaPublisher | None = None) -> None:
        self._store, self._deltas = store, deltas
        self._lock = threading.Lock()  # guards the next three
        self._buffer = EventBuffer()
        self._thread: threading.Thread | None = None
        self.dropped = 0

        self._ready, self._closing = threading.Event(), threading.Event()
        # Held while events are on their way into the database: the end of their step waits for their commit.
        self._writing = threading.Lock()
        self._away = False

    def record(self, scope: Scope, events: Sequence[Envelope], lifecycles: Sequence[Lifecycle] = ()) -> None:
        """Buffer events and lifecycles of one step; neither block nor raise."""
        stored = [one for one in events if one.type is not EventType.ITEM_DELTA]
        if self._deltas is not None and len(stored) < len(events):
            deltas = [one for one in events if one.type is EventType.ITEM_DELTA]
            self._deltas.publish(deltas)
        if stored or lifecycles:
            with self._lock:
                self.dropped += self._buffer.add(scope, stored, lifecycles)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
                    self._thread.start()
            self._ready.set()

    @contextmanager
    def taken(self, step_id: str) -> Iterator[list[Envelope]]:
        """Yield the waiting events of a step for the transaction that ends it; an error puts them back."""
        with self._writing, self._lock:
            events = self._buffer.take_step(step_id)
        try:
            yield events
        except BaseException:
            self._put_back(EventBuffer({step_id: events} if events else {}, count=len(events)))
            raise

    def close(self, seconds: float = 5.0) -> None:
        """Write the remaining events, within this time."""
        self._closing.set()
        self._ready.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            self._ready.wait()
            self._ready.clear()
            closing = self._closing.is_set()  # before reading the buffer: what is recorded before the close is written
            lost = None
            while self._buffer and lost is None:
                lost = self._write()
            self._log_outage(lost)
            if closing:
                return
            self._closing.wait(PAUSE_SECONDS if lost is None else AWAY_SECONDS)

    def _write(self) -> Exception | None:
        """Return the error of a database that is away; what was taken is in the buffer again then."""
        taken = EventBuffer()
        with ExitStack() as writing:
            try:
                with self._store.session() as session:
                    # The turn to write first: a step that ends waits for one of the two locks at most.
                    session.connection()
                    writing.enter_context(self._writing)
                    with self._lock:
                        taken = self._buffer.take()
                    taken.write(session)
            except Exception as error:
                if is_lost(error):
                    self._put_back(taken)
                    return error
                log.warning("events.batch_refused", error=_line(error))
                return self._write_singly(taken)
        return None

    def _write_singly(self, refused: EventBuffer) -> Exception | None:
        """Write each event and row by itself, and drop the ones that the database refuses; return as `_write`."""
        parts = deque(refused.singly())
        while parts:
            try:
                with self._store.session() as session:
                    parts[0].write(session)
            except Exception as error:
                if is_lost(error):
                    for part in reversed(parts):
                        self._put_back(part)
                    return error
                with self._lock:
                    self.dropped += parts[0].count
                log.error("events.refused", types=parts[0].types(), error=_line(error))
            parts.popleft()
        return None

    def _put_back(self, taken: EventBuffer) -> None:
        with self._lock:
            self._buffer.put_back(taken)
        self._ready.set()

    def _log_outage(self, lost: Exception | None) -> None:
        if lost is not None and not self._away:
            log.warning("events.not_recorded", error=_line(lost))
        elif lost is None and self._away:
            log.info("events.recorded_again", left_out=self.dropped)
        self._away = lost is not None


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
