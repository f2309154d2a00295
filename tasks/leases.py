"""Holds the leases of what this worker process works on, and ends what takes too long.

The threads pool has no time limits, so the limit of a step is kept here: past it the lease is not renewed and the work
is cancelled. Work whose lease was lost is cancelled too: another worker has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from models.store import Store
from models.tables import ToolCall, Turn
from tasks import graph
from tasks.graph import Claimed

log = structlog.get_logger(__name__)

# Work that was stopped or drained keeps its lease while it ends; what does not end loses it after so long.
ENDING_SECONDS = 12.0
# After a renewal that failed the next one comes sooner, by so many parts of a lease: when the database is back, the
# sweep is too, and gives holders half a lease.
RETRY = 1 / 18


class End(StrEnum):
    """Why work is ended from outside."""

    DEADLINE = "deadline"
    LEASE_LOST = "lease lost"
    STOPPED = "stopped"  # its run is being stopped
    DRAINED = "drained"  # its worker is ending


class Halted(Exception):
    """A turn that was stopped or drained has ended. It carries the rows of what it did until then."""

    def __init__(self, end: End, turns: Sequence[Turn] = (), calls: Sequence[ToolCall] = ()) -> None:
        super().__init__(end.value)
        self.end = end
        self.rows = (turns, calls)


@dataclass(slots=True)
class Held:
    """One step in work. `cancel` is set by the work once there is something to cancel; it finds the reason in
    `ended`."""

    step_id: str
    attempt: int
    deadline: float
    cancel: Callable[[], object] | None = None
    ended: End | None = None
    ended_at: float = 0.0
    run_id: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self, reason: End) -> None:
        with self.lock:
            if self.ended is None:
                self.ended, self.ended_at = reason, time.monotonic()
                if self.cancel is not None:
                    self.cancel()

    @property
    def halted(self) -> bool:
        return self.ended in (End.STOPPED, End.DRAINED)

    def renewed(self, now: float) -> bool:
        """Whether its lease is still pushed out."""
        return self.ended is None or (self.halted and now < self.ended_at + ENDING_SECONDS)

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

    def end_runs(self, run_ids: Iterable[str]) -> int:
        """End the work on these runs; how many steps were held for them."""
        stopped = set(run_ids)
        found = [item for item in self._items() if item.run_id in stopped]
        for item in found:
            item.end(End.STOPPED)
        return len(found)

    def end_all(self) -> int:
        """End all work, because this process is to end; how many steps were held."""
        found = self._items()
        for item in found:
            item.end(End.DRAINED)
        return len(found)

    def _items(self) -> list[Held]:
        with self._lock:
            return list(self._held.values())

    @contextmanager
    def hold(self, step: Claimed) -> Iterator[Held]:
        held = Held(step.id, step.attempt, time.monotonic() + self._deadline_seconds, run_id=step.run_id)
        with self._lock:
            self._held[step.id] = held
        try:
            yield held
        finally:
            with self._lock:
                if self._held.get(step.id) is held:
                    del self._held[step.id]

    def _loop(self) -> None:
        third, due, away = self._lease_seconds / 3, time.monotonic() + self._lease_seconds / 3, False
        while not self._stop.wait(max(due - time.monotonic(), 0.0)):
            due = time.monotonic() + third  # from the begin of one to the begin of the next
            try:
                self._beat()
            except Exception as error:
                # A database that is away for a moment must not end the renewing for good, nor a long trace delay it.
                if not away:
                    said = getattr(error, "orig", None) or error
                    log.warning("leases.renewal_failed", error=f"{type(error).__name__}: {said}")
                away, due = True, time.monotonic() + self._lease_seconds * RETRY
            else:
                if away:
                    log.info("leases.renewed_again", held=self.count())
                away = False

    def _beat(self) -> None:
        now = time.monotonic()
        held = self._items()
        for item in held:
            if item.deadline <= now:
                item.end(End.DEADLINE)
        alive = [item for item in held if item.renewed(now)]
        if not alive:
            return
        with self._store.session() as session:
            kept = graph.renew(session, ((h.step_id, h.attempt) for h in alive), self._owner, self._lease_seconds)
            stopped = graph.being_stopped(session, (h.run_id for h in alive))
        for item in alive:
            if item.step_id not in kept and self._held.get(item.step_id) is item:
                item.end(End.LEASE_LOST)
        # Whoever stops a run tells the workers; this finds what did not hear it.
        self.end_runs(stopped)
