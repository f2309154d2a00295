"""Redis streams of events, one for each run and one for the whole desk: their entries, their publisher, their reader.

Readers get committed events sooner by them, and deltas; nothing needs them, as the database has every event.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import redis
import redis.asyncio
import structlog
from pydantic import ValidationError

from chordesk.models.events import MOST, Batch, Envelope, joined, rows_of
from chordesk.tasks.redis_clients import client

log = structlog.get_logger(__name__)

ALL = "desk:events"
EXPIRE_SECONDS = 600  # a reader needs the last moments of a stream; the rest is in the database
# KEYS: a run's stream, the desk's. ARGV: entries to keep, seconds, then the values of each entry's fields. One call
# for any number of them.
PUBLISH = """
for i = 3, #ARGV, 2 do
  for _, key in ipairs(KEYS) do
    redis.call('XADD', key, 'MAXLEN', ARGV[1], '*', 'first', ARGV[i], 'events', ARGV[i + 1])
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
"""


def key_of(run_id: str) -> str:
    return f"{ALL}:{run_id}"


def entries(batches: Iterable[Batch]) -> list[str | int]:
    """Return the values of the fields of these batches, which are of one run."""
    values: list[str | int] = []
    for one in batches:
        values.extend(("" if one.first is None else one.first, one.text))
    return values


def read_entry(fields: Mapping[bytes, bytes]) -> Iterator[Envelope]:
    """Yield the events of an entry. One that cannot be read, such as a newer version's, is left out: readers notice by
    the sequence and read it from the database."""
    for row in _rows(fields):
        try:
            yield Envelope.model_validate(row)
        except ValidationError as error:
            _log_unreadable(error.errors(include_input=False, include_url=False)[:1])


def _rows(fields: Mapping[bytes, bytes]) -> list[Any]:
    try:
        first = int(fields[b"first"]) if fields[b"first"] else None
        return list(rows_of(fields[b"events"], first))
    except (KeyError, ValueError) as error:
        _log_unreadable(error)
        return []


def _log_unreadable(why: object) -> None:
    log.warning("events.unreadable", error=str(why))


class Stream:
    """Reader of one stream from now on. Its methods raise redis.exceptions.RedisError and OSError."""

    def __init__(self, client: redis.asyncio.Redis, key: str) -> None:
        self._client, self._key = client, key
        self._at = "0-0"

    async def to_end(self) -> None:
        """Pass over the entries that are in the stream now."""
        newest: Any = await self._client.xrevrange(self._key, count=1)
        self._at = newest[0][0] if newest else "0-0"

    async def following(self, most: int, wait_seconds: float) -> list[Envelope]:
        """Return the next events, up to `most`; none when none came in time."""
        wait = max(int(wait_seconds * 1000), 1)
        answer: Any = await self._client.xread({self._key: self._at}, count=max(most // MOST, 1), block=wait)
        if not answer:
            return []
        # [[key, entries]], or {key: [entries]}, depending on the version of the protocol.
        found = next(iter(answer.values()))[0] if isinstance(answer, dict) else answer[0][1]
        self._at = found[-1][0]
        return [one for _, fields in found for one in read_entry(fields)]


QUEUED_MOST = 4_000  # batches
AT_ONCE = 100
REDIS_SECONDS = 3.0
AWAY_SECONDS = 1.0
# Between two calls: a call costs as much as many events in it. A batch after a longer pause is sent at once.
PAUSE_SECONDS = 0.1


class Publisher:
    """Threads may share it; its own thread starts with the first batch. A batch that Redis does not take, or that the
    queue has no room for, is dropped: readers notice by the sequence and read the database.

    length: maximum number of events in a stream; fewer, when they come singly. dropped: number of events.
    """

    def __init__(self, redis_url: str, length: int) -> None:
        self._client = client(redis_url, REDIS_SECONDS, again=False)
        self._publish = self._client.register_script(PUBLISH)
        self._entries = max(length // MOST, 1)
        self._lock = threading.Lock()  # guards the next three
        self._queue: list[Batch] = []
        self._thread: threading.Thread | None = None
        self.dropped = 0

        self._ready, self._closing = threading.Event(), threading.Event()
        self._away = False

    def publish(self, batches: Sequence[Batch]) -> None:
        """Queue batches; neither wait for Redis nor raise."""
        with self._lock:
            room = max(QUEUED_MOST - len(self._queue), 0)
            self._queue += batches[:room]
            self.dropped += _count(batches[room:])
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
                self._thread.start()
        self._ready.set()

    def close(self, seconds: float = 2.0) -> None:
        """Send what is queued, within this time."""
        self._closing.set()
        self._ready.set()
        if self._thread is not None:
            self._thread.join(seconds)
        self._client.close()

    def _run(self) -> None:
        while True:
            self._ready.wait()
            self._ready.clear()
            closing = self._closing.is_set()  # before reading the queue: what is queued before the close is sent
            sent = True
            while sent and (batches := self._take()):
                sent = self._send(batches)
            if closing and not self._queue:
                return
            if not sent:
                self._ready.set()  # for the rest of the queue
            self._closing.wait(PAUSE_SECONDS if sent else AWAY_SECONDS)

    def _take(self) -> list[Batch]:
        with self._lock:
            taken, self._queue = self._queue[:AT_ONCE], self._queue[AT_ONCE:]
        return taken

    def _send(self, batches: list[Batch]) -> bool:
        """Return False when Redis is away: these batches are dropped."""
        # A process without a configured log would print them among its answers.
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
            self._drop(batches, error)
            return False
        if self._away:
            self._away = False
            log.info("events.published_again", left_out=self.dropped)
        return True

    def _drop(self, batches: Sequence[Batch], error: Exception) -> None:
        with self._lock:
            self.dropped += _count(batches)
        if not self._away:
            self._away = True
            log.warning("events.not_published", error=f"{type(error).__name__}: {error}")


def _count(batches: Sequence[Batch]) -> int:
    return sum(len(batch.events) for batch in batches)
