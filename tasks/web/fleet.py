"""The state of the fleet, kept for some seconds: to ask all workers takes more than one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Annotated

import structlog
from fastapi import Depends, Request
from pydantic import Field

from models.research import Frozen
from tasks.views.status import DeskStatus, WorkerRow, status
from tasks.web.context import ServiceContext

log = structlog.get_logger(__name__)

FRESH_SECONDS = 5.0


class KeptStatus(Frozen):
    """The state by part. age: seconds since it was read; None, like the status, before it was read for the first time.
    refreshing: it is being read again."""

    age: float | None = Field(ge=0)
    refreshing: bool
    status: DeskStatus | None


class KeptWorkers(Frozen):
    """The workers that answered when they were last asked; workers is None before that. age: seconds since then.
    trouble: queues that none of them serves, and why they could not be asked."""

    age: float | None
    refreshing: bool
    workers: list[WorkerRow] | None
    turns_in_flight: int | None
    trouble: dict[str, str]


class FleetWatch:
    """The status as it was last read. Threads may share it; one of them at a time has it read again, by a thread of its
    own, and none waits unless it asks to."""

    def __init__(self, read: Callable[[], DeskStatus]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._known: tuple[float, DeskStatus] | None = None
        self._refreshing: Future[None] | None = None

    def look(self, wait: float = 0.0) -> KeptStatus:
        """Return what is known, and have it read again if it is not fresh; wait so many seconds for that at most."""
        with self._lock:
            if self._is_stale() and self._refreshing is None:
                self._refreshing = Future()
                threading.Thread(target=self._refresh, args=[self._refreshing], name="fleet", daemon=True).start()
            under_way = self._refreshing
        if under_way is not None and wait:
            with suppress(TimeoutError):
                under_way.result(wait)
        with self._lock:
            known, refreshing = self._known, self._refreshing is not None
        if known is None:
            return KeptStatus(age=None, refreshing=refreshing, status=None)
        return KeptStatus(age=time.monotonic() - known[0], refreshing=refreshing, status=known[1])

    def workers(self) -> KeptWorkers:
        """Return the workers alone, without waiting."""
        found = self.look()
        status = found.status
        if status is None:
            return KeptWorkers(
                age=None, refreshing=found.refreshing, workers=None, turns_in_flight=None, trouble={}
            )  # fmt: skip
        named = {part: why for part, why in status.trouble.items() if part not in ("redis", "database")}
        return KeptWorkers(
            age=found.age, refreshing=found.refreshing, workers=status.workers, turns_in_flight=status.turns_in_flight,
            trouble=named,
        )  # fmt: skip

    def _is_stale(self) -> bool:
        return self._known is None or time.monotonic() - self._known[0] > FRESH_SECONDS

    def _refresh(self, done: Future[None]) -> None:
        try:
            began = time.monotonic()
            found = self._read()
            with self._lock:
                self._known = began, found
        except Exception:
            log.exception("api.status")
        finally:
            with self._lock:
                self._refreshing = None
            done.set_result(None)


def watch(context: ServiceContext) -> FleetWatch:
    """Return the watch of a service's fleet. Making one asks no worker."""
    return FleetWatch(lambda: _status(context))


def _status(context: ServiceContext) -> DeskStatus:
    theirs = context.running_desk()
    settings = theirs or context.settings
    return status(settings, running=theirs is not None, app=context.notifier.app, store=context.store)


def _fleet(request: Request) -> FleetWatch:
    found: FleetWatch = request.app.state.fleet
    return found


Fleet = Annotated[FleetWatch, Depends(_fleet)]
