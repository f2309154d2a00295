"""Beat that outlives its Redis. RedBeat ends with an error when Redis goes away or has lost its lock; here it begins
anew, which writes the schedule again and takes the lock again, so that a flushed Redis gets its sweep back."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

import structlog
from celery import Celery

from chordesk.tasks.worker.patches import command

log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 4.0
STEADY_SECONDS = 30.0
# Where RedBeat keeps its client and its settings on the app; made again with the next start.
_KEPT = ("redbeat_redis", "redbeat_conf")


def run_beat(app: Celery, arguments: Sequence[str]) -> int:
    """Run beat until it is asked to end, and return its exit code."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        began = time.monotonic()
        try:
            return command.run(app, arguments)
        except Exception as error:
            # Beat's own handler would ask a scheduler that is gone; a signal in the pause just ends the process.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            pause = FIRST_PAUSE_SECONDS if time.monotonic() - began > STEADY_SECONDS else pause
            log.warning("beat.begins_anew", error=f"{type(error).__name__}: {error}", in_seconds=pause)
        for name in _KEPT:
            if hasattr(app, name):
                delattr(app, name)
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
