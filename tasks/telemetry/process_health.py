"""The health of a process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from chordesk.tasks import life

# Returns why the process is not live, or not ready; None while it is.
Check = Callable[[], str | None]
# Returns metrics for a scrape, as the client library has them.
Collect = Callable[[], Iterable[Any]]
STARTING = "it is starting"
STOPPING = "it is stopping"


class ProcessHealth:
    """Health of this process. role: of worker, or `beat`, `api`, `notify`; name: among the desk's processes. Threads
    share it.

    A process is not ready before `ready_by` has given it a check.
    """

    def __init__(self, role: str, name: str = "") -> None:
        self.role, self.name = role, name or role
        self._began = time.monotonic()
        self._ready: Check = lambda: STARTING
        self._also: list[Check] = []
        self._stopping: Callable[[], bool] = lambda: False
        self._live: list[Check] = []

    def live_by(self, check: Check) -> None:
        """Add a check without which the process is to be ended: it must not ask another process."""
        self._live.append(check)

    def ready_by(self, check: Check) -> None:
        """Put a check in place of the one that decides on readiness: it must not wait for another process."""
        self._ready = check

    def also_ready_by(self, check: Check) -> None:
        """Add a check without which the process is not ready, beside the one that decides."""
        self._also.append(check)

    def stops_by(self, stopping: Callable[[], bool]) -> None:
        """Set what returns whether the process was asked to end; it is not ready from then on."""
        self._stopping = stopping

    def why_not_live(self) -> list[str]:
        return [why for check in self._live if (why := check()) is not None]

    def why_not_ready(self) -> list[str]:
        if self._stopping():
            return [*self.why_not_live(), STOPPING]
        return [*self.why_not_live(), *(why for check in (self._ready, *self._also) if (why := check()) is not None)]

    def answer(self) -> dict[str, Any]:
        """Return what `/health` shows. why: the reasons for which it is not live or not ready. state, beat_seconds: the
        word for its life and the age of its loop's last beat, None where it has none."""
        dead, unready = self.why_not_live(), self.why_not_ready()
        own = life.own()
        return {
            "role": self.role,
            "name": self.name,
            "pid": os.getpid(),
            "seconds": round(time.monotonic() - self._began, 1),
            "live": not dead,
            "ready": not unready,
            "why": unready,
            "state": own.state.value if own is not None else None,
            "beat_seconds": round(own.seconds, 1) if own is not None and own.seconds is not None else None,
        }
