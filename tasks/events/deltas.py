"""Pieces of a model's text while it is written, over Redis: never stored, and lost when nobody listens."""

from __future__ import annotations

import queue
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import orjson
import redis
import redis.asyncio
import structlog
from pydantic import ValidationError
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from chordesk.models.events import Envelope
from chordesk.tasks.redis_clients import client, wrong_url

log = structlog.get_logger(__name__)

CHANNEL = "desk:deltas"
QUEUED_MOST = 4_000  # messages
REDIS_SECONDS = 3.0
ASK_SECONDS = 5


class DeltaPublisher:
    """Threads may share it; its own thread starts with the first message. What Redis does not take, or the queue has no
    room for, is dropped. dropped: number of deltas."""

    def __init__(self, redis_url: str) -> None:
        self._client = client(redis_url, REDIS_SECONDS, again=False)
        self._queue: queue.Queue[Sequence[Envelope] | None] = queue.Queue(QUEUED_MOST)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # guards the thread's start
        self._away = False
        self.dropped = 0

    def publish(self, deltas: Sequence[Envelope]) -> None:
        """Queue deltas; neither wait for Redis nor raise."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deltas", daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait(deltas)
        except queue.Full:
            self.dropped += len(deltas)

    def close(self, seconds: float = 2.0) -> None:
        """Send queued deltas, within this time."""
        if self._thread is not None:
            with suppress(queue.Full):
                self._queue.put(None, timeout=seconds)
            self._thread.join(seconds)
        self._client.close()

    def _run(self) -> None:
        while (deltas := self._queue.get()) is not None:
            try:
                self._client.publish(CHANNEL, orjson.dumps([one.__dict__ for one in deltas]))
                self._away = False
            except (redis.RedisError, OSError, ValueError) as error:
                self.dropped += len(deltas)
                if not self._away:
                    log.warning("deltas.not_published", error=f"{type(error).__name__}: {error}")
                self._away = True


def listening_client(address: str) -> redis.asyncio.Redis:
    """Return a client for `listen`; it does not connect yet. Raises SettingError."""
    try:
        return redis.asyncio.from_url(address, retry=Retry(NoBackoff(), 0), socket_connect_timeout=REDIS_SECONDS)
    except (TypeError, ValueError, redis.RedisError):
        raise wrong_url(address) from None


async def listen(server: redis.asyncio.Redis, wanted: Callable[[], bool]) -> AsyncIterator[Envelope]:
    """While they are wanted. Raises redis.RedisError and OSError, also for a silent server."""
    async with server.pubsub(ignore_subscribe_messages=True) as channel:
        await channel.subscribe(CHANNEL)
        quiet = 0  # seconds
        while wanted():
            message = await channel.get_message(timeout=1.0)
            quiet = quiet + 1 if message is None else 0
            if quiet == ASK_SECONDS:
                await channel.ping()  # its answer is a message too
            elif quiet > ASK_SECONDS + REDIS_SECONDS:
                raise redis.ConnectionError("the server has gone silent")
            for one in _read(message["data"]) if message is not None and message["type"] == "message" else []:
                yield one


def _read(data: bytes) -> list[Envelope]:
    try:
        return [Envelope.model_validate(row) for row in orjson.loads(data)]
    except (ValueError, TypeError, ValidationError) as error:
        log.warning("deltas.unreadable", error=str(error).splitlines()[0])
        return []
