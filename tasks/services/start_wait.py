"""The wait for programs that are late: as long as they make progress, and with a line about it every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import psutil

from chordesk.models.errors import ServiceError
from chordesk.tasks.services.plan import Plan
from chordesk.tasks.services.supervision import log_file

NOTICE_SECONDS = 10.0
# On a busy machine a process waits for its turn at the CPU; one that used none for this long waits for something else.
STANDSTILL_SECONDS = 60.0


class StartWait:
    """The time that late programs are given: DESK_START_SECONDS, less when none of them uses CPU."""

    def __init__(self, plan: Plan, notify: Callable[[str], None]) -> None:
        self._folders, self._notify = plan.folders, notify
        self._limit = plan.settings.start_seconds
        self._standstill = min(STANDSTILL_SECONDS, self._limit)
        self._began = self._moved = time.monotonic()
        self._next_line = self._began + NOTICE_SECONDS
        self._used = 0.0

    def check(self, late: Sequence[str], pids: Iterable[int]) -> None:
        """Announce what is late when it is time for a line. Raises ServiceError when there is no more time. pids: of
        the late programs."""
        now, used = time.monotonic(), _cpu_seconds(pids)
        if used != self._used:
            self._used, self._moved = used, now
        waited, still = now - self._began, now - self._moved
        if waited >= self._limit:
            raise self._over(late, f"in {waited:.0f} s (DESK_START_SECONDS)")
        if still >= self._standstill:
            raise self._over(late, f"and used no CPU for {still:.0f} s")
        if now >= self._next_line:
            self._next_line = now + NOTICE_SECONDS
            self._notify(f"waiting for {self._named(late)}: {waited:.0f} s so far, at most {self._limit:g}")

    def _named(self, late: Sequence[str]) -> str:
        return ", ".join(f"{name} (log {log_file(name, self._folders)})" for name in late)

    def _over(self, late: Sequence[str], why: str) -> ServiceError:
        remedy = "see the log; on a slow machine set DESK_START_SECONDS higher"
        return ServiceError(f"not ready {why}: {self._named(late)}", remedy=remedy)


def _cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU seconds that processes and those under them have used."""
    total = 0.0
    for pid in filter(None, pids):
        with suppress(psutil.Error):
            first = psutil.Process(pid)
            for each in (first, *first.children(recursive=True)):
                times = each.cpu_times()
                total += times.user + times.system
    return total
