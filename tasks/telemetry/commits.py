"""Telemetry of what is known once it is committed: runs that ended, orders, errors of the provider."""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import structlog

from chordesk.models.database.store import Store
from chordesk.models.events import Batch, Envelope, EventType
from chordesk.models.settings import Settings
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import Run
from chordesk.models.telemetry_events import CodexErrorEvent
from chordesk.tasks.telemetry.emit import Telemetry
from chordesk.tasks.telemetry.process_watch import has_telemetry
from chordesk.tasks.telemetry.run_summaries import completed, role_fields

log = structlog.get_logger(__name__)

QUEUED = 10_000  # waiting events
CLOSE_SECONDS = 5.0


class Commits:
    """Listener to the events that a store commits. Other writers wait meanwhile, so the events are only queued; a
    thread reads the rows. dropped: number of events that the queue had no room for."""

    def __init__(self, telemetry: Telemetry, store: Store) -> None:
        self._telemetry, self._store = telemetry, store
        # Events, and the tracing context of the thread that committed each, if there is one.
        self._queue: queue.Queue[tuple[Envelope, Any] | None] = queue.Queue(QUEUED)
        self._handlers: dict[EventType, Callable[[Envelope, Any], None]] = {
            EventType.RUN_COMPLETED: self._run,
            EventType.ORDER_STATE: self._order,
            EventType.ORDER_FILL: self._fill,
            EventType.TURN_ERROR: self._error,
        }
        self.dropped = 0
        self._thread = threading.Thread(target=self._loop, name="telemetry", daemon=True)
        self._thread.start()

    def committed(self, batches: Sequence[Batch]) -> None:
        """Queue the events that telemetry needs; neither block nor raise."""
        for event in [one for batch in batches for one in batch.events if one.type in self._handlers]:
            try:
                self._queue.put_nowait((event, self._telemetry.current_context()))
            except queue.Full:
                self.dropped += 1

    def close(self) -> None:
        with suppress(queue.Full):
            self._queue.put(None, timeout=CLOSE_SECONDS)
        self._thread.join(CLOSE_SECONDS)

    def _loop(self) -> None:
        while (committed := self._queue.get()) is not None:
            event, context = committed
            try:
                self._handlers[event.type](event, context)
            except Exception as error:
                log.warning("telemetry.lost", about=event.type.value, run=event.run_id, error=str(error))

    def _run(self, ended: Envelope, _context: Any) -> None:
        with self._store.read() as session:
            run = session.get_one(Run, ended.run_id)
            events = completed(session, run) if self._telemetry.counts else []
        for event in events:
            self._telemetry.emit(event)
        ended_at = run.finished_at or ended.occurred_at
        if self._telemetry.metrics is not None:
            self._telemetry.metrics.run(run.kind, run.state, (ended_at - run.created_at).total_seconds())
        if (spans := self._telemetry.spans()) is not None:
            spans.run(run)

    def _order(self, event: Envelope, context: Any) -> None:
        state = event.payload["state"]
        if self._telemetry.metrics is not None:
            self._telemetry.metrics.order(state)
        spans = self._telemetry.spans()
        if spans is not None and event.payload.get("was") == OrderState.SUBMITTING:
            with self._store.read() as session:
                order = session.get_one(Order, event.payload["order"])
            spans.submission(order, event.occurred_at, state, context)

    def _fill(self, event: Envelope, context: Any) -> None:
        if (spans := self._telemetry.spans()) is not None:
            with self._store.read() as session:
                fill = session.get_one(Fill, event.payload["fill"])
                order = session.get_one(Order, fill.order_id)
            spans.fill(order, fill, context)

    def _error(self, event: Envelope, _context: Any) -> None:
        payload = event.payload
        self._telemetry.emit(
            CodexErrorEvent(
                run_id=event.run_id,
                at=event.occurred_at,
                **role_fields(payload.get("role", ""), payload.get("subject", "")),
                thread_id=event.thread_id,
                turn_id=event.turn_id,
                kind=payload["kind"],
                error=payload["why"],
                will_retry=payload["will_retry"],
            )
        )


@contextmanager
def emitted(settings: Settings, store: Store, name: str) -> Iterator[None]:
    """Emit the telemetry of everything that a store commits in the block, in a process that is not a worker."""
    if not has_telemetry(settings):
        yield
        return
    telemetry = Telemetry(settings, lambda: f"{name}@{socket.gethostname()}:{os.getpid()}")
    commits = Commits(telemetry, store)
    store.on_commit.append(commits.committed)
    try:
        yield
    finally:
        commits.close()
        telemetry.close()
