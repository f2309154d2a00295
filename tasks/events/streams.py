"""Redis streams of events, one for each run and one for the whole desk: quicker than the database, and not needed.

desk:events:{run}   entries of batches; expires ten minutes after the last one
desk:events         the same of all runs

An entry has two fields: `events`, the batch's text, and `first`, the sequence of the first of them, empty for deltas.
An entry costs Redis about as much as all events that it may hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import redis.asyncio
import structlog
from pydantic import ValidationError

from chordesk.models.events.batch import MOST, Batch, rows_of
from chordesk.models.events.envelope import Envelope

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
