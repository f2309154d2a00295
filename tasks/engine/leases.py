"""Leases of the steps that this worker process holds: renewal, and the end of work that takes too long.

The threads pool has no time limits, so the limit of a step is kept here: past it the lease is not renewed and the work
is cancelled. Work that has lost its lease is cancelled too: another worker has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

import structlog
from sqlmodel import SQLModel

from chordesk.models.database.store import Store
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.steps import ClaimedStep

log = structlog.get_logger(__name__)

# Work that was stopped or drained keeps its lease while it ends; what does not end loses it after so long.
ENDING_SECONDS = 12.0
# After a renewal that failed the next one comes sooner, by so many parts of a lease: when the database is back, the
# sweep is too, and gives holders half a lease.
RETRY = 1 / 18


class EndReason(StrEnum):
    """Reasons for which work is ended from outside."""

    DEADLINE = "deadline"
    LEASE_LOST = "lease lost"
    STOPPED = "stopped"  # its run is being stopped
    DRAINED = "drained"  # its worker is ending
    CANCELLED = "cancelled"  # another step's end made it needless


class StepEnded(Exception):
    """A turn that was stopped or drained has ended. It carries the rows of what it did until then."""

    def __init__(self, end: EndReason, *rows: Sequence[SQLModel]) -> None:
        super().__init__(end.value)
        self.end = end
        self.rows = rows


@dataclass(slots=True)
class HeldStep:
    """A step in work. `cancel` is set by the work once there is something to cancel; the reason is then in `ended`."""

    step: ClaimedStep
    deadline: float
    cancel: Callable[[], object] | None = None
    ended: EndReason | None = None
    ended_at: float = 0.0
    why: str = ""  # for a cancelled step
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self, reason: EndReason, why: str = "") -> None:
        with self.lock:
            if self.ended is None:
                self.ended, self.ended_at, self.why = reason, time.monotonic(), why
                if self.cancel is not None:
                    self.cancel()

    @property
    def interrupted(self) -> bool:
        return self.ended in (EndReason.STOPPED, EndReason.DRAINED, EndReason.CANCELLED)

    def renewed(self, now: float) -> bool:
        """Return whether its lease is still pushed out."""
        return self.ended is None or (self.interrupted and now < self.ended_at + ENDING_SECONDS)

    def on_end(self, cancel: Callable[[], object]) -> None:
        """Register the callback that ends the work; called at once when the work should have ended already."""
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
        self._held: dict[str, HeldStep] = {}
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
        return self._end(EndReason.STOPPED, lambda step: "" if step.run_id in stopped else None)

    def end_children(self, reasons: Mapping[str, str]) -> int:
        """End the work on steps that are needless by now, and return how many were held. reasons: by their parent."""
        return self._end(EndReason.CANCELLED, lambda step: reasons.get(step.parent_id or ""))

    def end_all(self) -> int:
        """End all work, because this process is to end; how many steps were held."""
        return self._end(EndReason.DRAINED, lambda step: "")

    def _end(self, reason: EndReason, why: Callable[[ClaimedStep], str | None]) -> int:
        """why: of a step, None for one that goes on."""
        found = [(item, text) for item in self._items() if (text := why(item.step)) is not None]
        for item, text in found:
            item.end(reason, text)
        return len(found)

    def _items(self) -> list[HeldStep]:
        with self._lock:
            return list(self._held.values())

    @contextmanager
    def hold(self, step: ClaimedStep) -> Iterator[HeldStep]:
        held = HeldStep(step, time.monotonic() + self._deadline_seconds)
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
                    cause = getattr(error, "orig", None) or error
                    log.warning("leases.renewal_failed", error=f"{type(error).__name__}: {cause}")
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
                item.end(EndReason.DEADLINE)
        alive = {item.step.id: item for item in held if item.renewed(now)}
        if not alive:
            return
        with self._store.session() as session:
            steps = [item.step for item in alive.values()]
            kept = graph.renew(session, ((step.id, step.attempt) for step in steps), self._owner, self._lease_seconds)
            stopped = graph.being_stopped(session, (step.run_id for step in steps))
            needless = graph.cancelled(session, (step.parent_id for step in steps if step.parent_id))
        for step_id, item in alive.items():
            if step_id not in kept and self._held.get(step_id) is item:
                item.end(EndReason.LEASE_LOST)
        # A command to the workers comes sooner; this finds the work that it did not reach.
        self.end_runs(stopped)
        self.end_children(needless)
