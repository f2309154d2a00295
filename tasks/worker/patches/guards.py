"""Two guards around kombu's Redis transport; each can go when upstream no longer needs it.

1. kombu 5.7.0 asks a closed channel for its connection's host name when Redis goes away while a worker holds an
   unacknowledged message: AttributeError, and the worker exits. Here it becomes the connection error that it is, and
   the worker reconnects.
2. A message that is not acknowledged within the visibility time-out is delivered again. A short time-out finds the
   messages of a dead worker quickly, but a living worker must then refresh those that it holds.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import structlog
from celery import bootsteps
from kombu.transport import redis as transport
from redis.exceptions import ConnectionError as RedisConnectionError

log = structlog.get_logger(__name__)


def guard_lost_connection() -> None:
    """Make a channel without a connection raise a connection error. Safe to call twice."""
    original = transport.Channel._connparams
    if getattr(original, "guarded", False):
        return

    def guarded(self: Any, asynchronous: bool = False) -> Any:
        if self.connection is None or self.connection.client is None:
            raise RedisConnectionError("the channel has lost its connection")
        return original(self, asynchronous=asynchronous)

    guarded.guarded = True  # type: ignore[attr-defined]
    setattr(transport.Channel, "_connparams", guarded)  # noqa: B010  (a plain assignment is refused by mypy)


class KeepUnacked(bootsteps.StartStopStep):  # type: ignore[misc]
    """Refreshes the delivery time of what this consumer holds, every third of the visibility time-out."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, consumer: Any) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._loop, args=(consumer, self._stop), name="keep-unacked", daemon=True
        )
        self._thread.start()

    def stop(self, consumer: Any) -> None:
        self._stop.set()

    def _loop(self, consumer: Any, stop: threading.Event) -> None:
        channel = consumer.task_consumer.channel
        while not stop.wait(channel.visibility_timeout / 3):
            try:
                refresh(channel)
            except Exception as error:
                log.warning("unacked.refresh_failed", error=str(error))


def refresh(channel: Any) -> int:
    """Set the score of the held tags to now, if they are still in the index; how many were held."""
    held = set(channel.qos._delivered) - set(channel.qos._dirty)
    if held:
        now = time.time()
        with channel.conn_or_acquire() as client:
            client.zadd(channel.unacked_index_key, dict.fromkeys(held, now), xx=True)
    return len(held)
