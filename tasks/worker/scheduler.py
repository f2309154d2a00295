"""RedBeat's scheduler, which the process's health follows. Loaded by Celery, by its name, in beat alone."""

from __future__ import annotations

import time
from typing import Any

from redbeat import RedBeatScheduler

STALLED_SECONDS = 30.0  # it ticks at least once a second, unless Redis is away


class WatchedScheduler(RedBeatScheduler):  # type: ignore[misc]
    """Scheduler of a beat that is ready once it has ticked. A second beat waits for the lock of the first, and does
    not tick."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._ticked: float | None = None
        super().__init__(*arguments, **options)
        self.app.desk.watch.health.ready_by(self._why_not)

    def tick(self, *arguments: Any, **options: Any) -> float:
        pause: float = super().tick(*arguments, **options)
        self._ticked = time.monotonic()
        return pause

    def _why_not(self) -> str | None:
        if self._ticked is None:
            return "it is starting, or waits for the lock of another beat"
        age = time.monotonic() - self._ticked
        return f"the schedule last ticked {age:.0f} s ago: it waits for Redis" if age > STALLED_SECONDS else None
