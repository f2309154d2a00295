"""The Redis streams of events: one of each run, and one of the whole desk. They tell sooner what the database knows.

desk:events:{run}   an entry an event, its one field the envelope as JSON; gone ten minutes after the last one
desk:events         the same of all runs
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import redis.asyncio
import structlog
from pydantic import ValidationError

from models.events import Envelope

log = structlog.get_logger(__name__)

ALL = "desk:events"
FIELD = "event"
EXPIRE_SECONDS = 600  # a reader needs the last moments of a stream; the rest is in the database
# KEYS: a run's stream, the desk's. ARGV: length, seconds, events. One call whatever their number.
PUBLISH = f"""
for i = 3, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', '{FIELD}', ARGV[i])
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], '*', '{FIELD}', ARGV[i])
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
"""


def key_of(run_id: str) -> str:
    return f"{ALL}:{run_id}"


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
        answer: Any = await self._client.xread({self._key: self._at}, count=most, block=wait)
        if not answer:
            return []
        # [[key, entries]], or {key: [entries]}, as the version of the protocol has it.
        entries = next(iter(answer.values()))[0] if isinstance(answer, dict) else answer[0][1]
        self._at = entries[-1][0]
        return list(_envelopes(fields for _, fields in entries))


def _envelopes(entries: Iterable[dict[Any, Any]]) -> Iterable[Envelope]:
    for fields in entries:
        text = next(iter(fields.values()), b"")
        try:
            yield Envelope.model_validate_json(text)
        except ValidationError as error:
            # Of a newer version, or nobody's: what is missing is read from the database.
            log.warning("events.unreadable", error=str(error.errors(include_input=False, include_url=False)[:1]))
