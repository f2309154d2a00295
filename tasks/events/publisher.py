"""Puts committed events, and deltas, on the Redis streams: what makes readers quick. Nothing rests on it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from itertools import chain

import redis
import structlog

from models.event_batch import MOST, Batch, joined
from tasks.events.inbox import Inbox
from tasks.events.streams import ALL, EXPIRE_SECONDS, PUBLISH, entries, key_of
from tasks.redis_clients import client

log = structlog.get_logger(__name__)

QUEUED_MOST = 4_000  # batches
AT_ONCE = 100
REDIS_SECONDS = 3.0
AWAY_SECONDS = 1.0
# Between two calls: a call costs as much as many events in it. What comes after a longer rest goes out at once.
PAUSE_SECONDS = 0.1


class Publisher:
    """Threads may share it; its own thread begins with the first event. What Redis does not take, or what is more than
    the queue holds, QUEUED_MOST batches, is left out: readers miss it by its sequence and read it from the database.

    length: how many events a stream holds at the most; fewer, when they come singly. dropped: how many events were
    left out.
    """

    def __init__(self, redis_url: str, length: int) -> None:
        self._client = client(redis_url, REDIS_SECONDS, again=False)
        self._publish = self._client.register_script(PUBLISH)
        self._entries = max(length // MOST, 1)
        self._inbox: Inbox[Batch] = Inbox("publisher", self._run)
        self._away = False
        self._counting = threading.Lock()
        self.dropped = 0

    def publish(self, batches: Sequence[Batch]) -> None:
        """Neither waits for Redis nor raises."""
        room = max(QUEUED_MOST - len(self._inbox), 0)
        for one in batches[:room]:
            self._inbox.put(one)
        if len(batches) > room:
            self._count(batches[room:])

    def close(self, seconds: float = 2.0) -> None:
        """Sends what is queued, for so long at the most."""
        self._inbox.close(seconds)
        self._client.close()

    def _run(self) -> None:
        while True:
            self._inbox.expect()
            closing = self._inbox.closing.is_set()  # before looking: what is put in before the close is sent
            began = time.monotonic()
            if batches := self._inbox.take(AT_ONCE):
                pause = PAUSE_SECONDS if self._send(batches) else AWAY_SECONDS
                if len(batches) < AT_ONCE:
                    self._inbox.closing.wait(max(began + pause - time.monotonic(), 0.0))
            elif closing:
                return
            else:
                self._inbox.wait()

    def _send(self, batches: list[Batch]) -> bool:
        """False when Redis is away: these are left out."""
        # A process that has set up no log would print them among its answers.
        if structlog.is_configured() and log.is_enabled_for(logging.DEBUG):
            for one in chain.from_iterable(batch.placed() for batch in batches):
                log.debug("event", **one.model_dump(mode="json", exclude_none=True))
        by_run: dict[str, list[Batch]] = {}
        for batch in batches:
            by_run.setdefault(batch.run_id, []).append(batch)
        try:
            for run_id, some in by_run.items():
                fields = entries(joined(some))
                self._publish(keys=[key_of(run_id), ALL], args=[self._entries, EXPIRE_SECONDS, *fields])
        except (redis.RedisError, OSError) as error:
            self._left_out(batches, error)
            return False
        if self._away:
            self._away = False
            log.info("events.published_again", left_out=self.dropped)
        return True

    def _left_out(self, batches: Sequence[Batch], error: Exception) -> None:
        self._count(batches)
        if not self._away:
            self._away = True
            log.warning("events.not_published", error=f"{type(error).__name__}: {error}")

    def _count(self, left_out: Sequence[Batch]) -> None:
        with self._counting:
            self.dropped += sum(len(batch.events) for batch in left_out)
