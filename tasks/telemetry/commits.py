"""Telemetry of what is known once it is committed: runs that ended, orders, errors of the provider."""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from agents.roles import mode_of
from models.event_batch import Batch
from models.events import Envelope, EventType
from models.order_tables import Fill, Order
from models.settings import Settings
from models.states import OrderState
from models.store import Store
from models.tables import Run
from models.telemetry import CodexError
from tasks.telemetry.emit import Telemetry
from tasks.telemetry.modes import symbol_of
from tasks.telemetry.summaries import completed

log = structlog.get_logger(__name__)

QUEUED = 10_000  # events that wait to be told
CLOSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Noted:
    """An event, and the tracing context of whoever committed it, if there is one."""

    event: Envelope
    near: Any


class Commits:
    """Told of events by whoever commits them, while others wait for the database: so they are only noted there, and a
    thread of its own looks at the rows. That is begun with the first event that telemetry wants."""

    def __init__(self, telemetry: Telemetry, store: Store) -> None:
        self._telemetry, self._store = telemetry, store
        self._noted: queue.Queue[_Noted | None] = queue.Queue(QUEUED)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._handlers: dict[EventType, Callable[[_Noted], None]] = {
            EventType.RUN_COMPLETED: self._run,
            EventType.ORDER_STATE: self._order,
            EventType.ORDER_FILL: self._fill,
            EventType.TURN_ERROR: self._error,
        }
        self.dropped = 0

    def told(self, batches: Sequence[Batch]) -> None:
        """Neither blocks nor raises."""
        for event in [one for batch in batches for one in batch.events if one.type in self._handlers]:
            self._note(_Noted(event, self._telemetry.here()))

    def close(self) -> None:
        """Tells what was noted until now."""
        if self._thread is not None:
            self._noted.put(None)
            self._thread.join(CLOSE_SECONDS)

    def _note(self, noted: _Noted) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="telemetry", daemon=True)
                self._thread.start()
        try:
            self._noted.put_nowait(noted)
        except queue.Full:
            self.dropped += 1

    def _loop(self) -> None:
        while (noted := self._noted.get()) is not None:
            try:
                self._handlers[noted.event.type](noted)
            except Exception as error:
                log.warning("telemetry.lost", about=noted.event.type.value, run=noted.event.run_id, error=str(error))

    def _run(self, noted: _Noted) -> None:
        with self._store.read() as session:
            run = session.get_one(Run, noted.event.run_id)
            told = completed(session, run) if self._telemetry.counts else []
        for event in told:
            self._telemetry.emit(event)
        ended_at = run.finished_at or noted.event.occurred_at
        if self._telemetry.metrics is not None:
            self._telemetry.metrics.run(run.kind, run.state, (ended_at - run.created_at).total_seconds())
        if (spans := self._telemetry.spans()) is not None:
            spans.run(run)

    def _order(self, noted: _Noted) -> None:
        state, was = noted.event.payload["state"], noted.event.payload.get("was")
        if self._telemetry.metrics is not None:
            self._telemetry.metrics.order(state)
        spans = self._telemetry.spans()
        if spans is not None and was == OrderState.SUBMITTING:
            with self._store.read() as session:
                order = session.get_one(Order, noted.event.payload["order"])
            spans.submission(order, noted.event.occurred_at, state, noted.near)

    def _fill(self, noted: _Noted) -> None:
        if (spans := self._telemetry.spans()) is not None:
            with self._store.read() as session:
                fill = session.get_one(Fill, noted.event.payload["fill"])
                order = session.get_one(Order, fill.order_id)
            spans.fill(order, fill, noted.near)

    def _error(self, noted: _Noted) -> None:
        event, said = noted.event, noted.event.payload
        role, subject = said.get("role", ""), said.get("subject", "")
        self._telemetry.emit(
            CodexError(
                run_id=event.run_id,
                at=event.occurred_at,
                mode=mode_of(role),
                role=role,
                symbol=symbol_of(role, subject),
                thread_id=event.thread_id,
                turn_id=event.turn_id,
                kind=said["kind"],
                error=said["why"],
                will_retry=said["will_retry"],
            )
        )


@contextmanager
def telling(settings: Settings, store: Store, name: str) -> Iterator[None]:
    """For a process that is no worker and may end a run: what its store commits in the block is told."""
    telemetry = Telemetry(settings, lambda: f"{name}@{socket.gethostname()}:{os.getpid()}")
    if not telemetry.wanted:
        yield
        return
    commits = Commits(telemetry, store)
    store.on_commit.append(commits.told)
    try:
        yield
    finally:
        commits.close()
        telemetry.close()
