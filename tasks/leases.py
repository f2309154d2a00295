"""Holds the leases of what this worker process works on, and ends what takes too long.

The threads pool has no time limits, so the limit of a step is kept here: past it the lease is not renewed and the work
is cancelled. Work whose lease was lost is cancelled too: another worker has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from models.store import Store
from tasks import graph
from tasks.graph import Claimed

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Held:
    """One step in work. `cancel` is set by the work once there is something to cancel."""

    step_id: str
    attempt: int
    deadline: float
    cancel: Callable[[], object] | None = None
    ended: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self, reason: str) -> None:
        with self.lock:
            if self.ended is None:
                self.ended = reason
                if self.cancel is not None:
                    self.cancel()

    def on_end(self, cancel: Callable[[], object]) -> None:
        """Register what ends the work; called at once when it should have ended already."""
        with self.lock:
            self.cancel = cancel
            if self.ended is not None:
                cancel()


class LeaseKeeper:
    """One thread that renews every lease of this process each third of its length."""

    def __init__(self, store: Store, owner: str, lease_seconds: float, deadline_seconds: float) -> None:
        self._store = store
        self._owner = owner
        self._lease_seconds = lease_seconds
        self._deadline_seconds = deadline_seconds
        self._held: dict[str, Held] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="leases", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=self._lease_seconds)

    def count(self) -> int:
        return len(self._held)

    @contextmanager
    def hold(self, step: Claimed) -> Iterator[Held]:
        held = Held(step.id, step.attempt, time.monotonic() + self._deadline_seconds)
        with self._lock:
            self._held[step.id] = held
        try:
            yield held
        finally:
            with self._lock:
                if self._held.get(step.id) is held:
                    del self._held[step.id]

    def _loop(self) -> None:
        while not self._stop.wait(self._lease_seconds / 3):
            try:
                self._beat()
            except Exception:
                # A database that is away for a moment must not end the renewing for good.
                log.exception("leases.renewal_failed")

    def _beat(self) -> None:
        now = time.monotonic()
        with self._lock:
            held = list(self._held.values())
        for item in held:
            if item.deadline <= now:
                item.end("deadline")
        alive = [item for item in held if item.ended is None]
        if not alive:
            return
        with self._store.session() as session:
            kept = graph.renew(session, ((h.step_id, h.attempt) for h in alive), self._owner, self._lease_seconds)
        for item in alive:
            if item.step_id not in kept and self._held.get(item.step_id) is item:
                item.end("lease lost")
