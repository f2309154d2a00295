"""The Redis streams of events: one of each run, and one of the whole desk. They tell sooner what the database knows.

desk:events:{run}   entries of one field, some envelopes as a JSON list; gone ten minutes after the last one
desk:events         the same of all runs

An entry costs Redis about as much as the twenty events that it may hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import redis.asyncio
import structlog
from pydantic import ValidationError

from models.events import Envelope

log = structlog.get_logger(__name__)

ALL = "desk:events"
FIELD = "events"
PER_ENTRY = 20
EXPIRE_SECONDS = 600  # a reader needs the last moments of a stream; the rest is in the database
# KEYS: a run's stream, the desk's. ARGV: entries to keep, seconds, entries. One call whatever their number.
PUBLISH = f"""
for i = 3, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', '{FIELD}', ARGV[i])
  redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[1], '*', '{FIELD}', ARGV[i])
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
"""


def key_of(run_id: str) -> str:
    return f"{ALL}:{run_id}"


def entries(events: Sequence[Envelope]) -> list[bytes]:
    """What a stream is given for these events."""
    rows = [one.__dict__ for one in events]  # an envelope's own way to JSON takes six times as long
    return [orjson.dumps(rows[start : start + PER_ENTRY]) for start in range(0, len(rows), PER_ENTRY)]


def read_entry(fields: Mapping[Any, Any]) -> Iterator[Envelope]:
    """The events of an entry. One that cannot be read, of a newer version or nobody's, is left out: readers miss it by
    its sequence and read it from the database."""
    for row in _rows(next(iter(fields.values()), b"")):
        try:
            yield Envelope.model_validate(row)
        except ValidationError as error:
            _unreadable(error.errors(include_input=False, include_url=False)[:1])


def _rows(text: bytes) -> list[Any]:
    try:
        rows = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        _unreadable(error)
        return []
    return rows if isinstance(rows, list) else [rows]


def _unreadable(why: object) -> None:
    log.warning("events.unreadable", error=str(why))


class Stream:
    """Reads one stream from now on. Its methods raise redis.exceptions.RedisError and OSError."""

    def __init__(self, client: redis.asyncio.Redis, key: str) -> None:
        self._client, self._key = client, key
        self._at = "0-0"

    async def to_end(self) -> None:
        """What is in the stream by now is passed over."""
        newest: Any = await self._client.xrevrange(self._key, count=1)
        self._at = newest[0][0] if newest else "0-0"

    async def following(self, most: int, wait_seconds: float) -> list[Envelope]:
        """The next events, `most` of them; none when nothing came in time."""
        wait = max(int(wait_seconds * 1000), 1)
        answer: Any = await self._client.xread({self._key: self._at}, count=max(most // PER_ENTRY, 1), block=wait)
        if not answer:
            return []
        # [[key, entries]], or {key: [entries]}, as the version of the protocol has it.
        found = next(iter(answer.values()))[0] if isinstance(answer, dict) else answer[0][1]
        self._at = found[-1][0]
        return [one for _, fields in found for one in read_entry(fields)]
