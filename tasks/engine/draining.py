"""The end of a worker process: it takes nothing new, lets turns end for a while, then gives the rest of its steps back.

Celery's threads pool waits for its tasks without a limit. So the work itself is ended here: a turn that outlasts the
time is interrupted, and its step goes back to the queue with the attempt not used up.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from celery import bootsteps

from chordesk.tasks.engine.leases import ENDING_SECONDS, LeaseKeeper

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.1
# From the end of the work to the end of the process: app-servers are stopped, connections closed.
EXIT_SECONDS = 20.0
_NO, _WARM, _AT_ONCE = 0, 1, 2
Keeper = Callable[[], LeaseKeeper | None]


class Drain:
    """The request to end this process, which a signal handler may make, and the thread that then ends its work."""

    def __init__(self, grace_seconds: float, exit_seconds: float = EXIT_SECONDS) -> None:
        self._grace_seconds, self._exit_seconds = grace_seconds, exit_seconds
        self._request = _NO

    @property
    def requested(self) -> bool:
        return self._request != _NO

    def request(self, how: str = "Warm", **_: Any) -> None:
        """Handle Celery's shutdown signal. A second one, or a cold one, gives turns no time to end by themselves."""
        self._request = _AT_ONCE if self.requested or how != "Warm" else _WARM

    def take_signals(self) -> None:
        """Make Ctrl-C end the worker as SIGTERM does, and SIGQUIT too, but at once. For the main thread of a worker.

        Celery's own cold shutdown kills tasks. Threads cannot be killed: it fails half-way, and the process stays with
        turns that never end.
        """
        warm = signal.getsignal(signal.SIGTERM)

        def cold(number: int, frame: Any) -> None:
            self.request("Cold")
            warm(number, frame)  # type: ignore[operator,misc]

        signal.signal(signal.SIGINT, warm)
        signal.signal(signal.SIGQUIT, cold)

    def watch(self, keeper: Keeper) -> None:
        """Start the thread. keeper: returns the holder of this process's leases, None before the first step."""
        threading.Thread(target=self._run, args=(keeper,), name="drain", daemon=True).start()

    def _run(self, keeper: Keeper) -> None:
        while not self.requested:
            time.sleep(POLL_SECONDS)
        until = time.monotonic() + self._grace_seconds
        log.info("drain.began", held=_count(keeper), grace_seconds=self._grace_seconds)
        while _count(keeper) and self._request != _AT_ONCE and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        self._end_rest(keeper)
        # All work is over and in the database. A Redis that neither answers nor refuses would be waited for without a
        # limit by Celery.
        time.sleep(self._exit_seconds)
        log.error("drain.stuck", seconds=self._exit_seconds)
        os._exit(1)

    def _end_rest(self, keeper: Keeper) -> None:
        if left := _count(keeper):
            log.info("drain.interrupts", steps=left)
        until = time.monotonic() + ENDING_SECONDS
        # Again and again: a step may have been claimed just before the request to end.
        while (held := keeper()) is not None and held.end_all():
            if time.monotonic() > until:
                log.error("drain.gave_up", steps=held.count())
                os._exit(1)  # code that cannot be interrupted; when its lease is over another worker takes it up
            time.sleep(POLL_SECONDS)


def _count(keeper: Keeper) -> int:
    held = keeper()
    return held.count() if held is not None else 0


class StopFetching(bootsteps.StartStopStep):  # type: ignore[misc]
    """Stops fetching as soon as the worker is to end, and puts back what the last fetch brought.

    A fetch waits in Redis for up to a second. Kombu reads its answer when the channel closes, which is after the last
    task has ended: until then a message would be with a worker that never does it.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def stop(self, consumer: Any) -> None:
        if not consumer.app.desk.drain.requested or not consumer.task_consumer:
            return
        channel = consumer.task_consumer.channel
        try:
            consumer.task_consumer.cancel()
            if channel._in_poll:
                channel._brpop_read()
        except Exception as error:
            # Nothing was fetched, or Redis is away: what it lost is sent again by the sweep.
            log.debug("drain.last_fetch", error=repr(error))
