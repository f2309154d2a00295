"""Tells whether Redis still holds the messages it was given: a mark in it, and the run id of its server.

A flushed or empty server has lost the mark; one that was started again has another run id, and may have lost the last
second of its append-only file. Either way the database knows what has to be sent again.
"""

from __future__ import annotations

import uuid

import redis

from models.errors import RedisDown

KEY = "desk:mark"


def mark(client: redis.Redis) -> str:
    """The same text for as long as nothing was lost. Raises RedisDown."""
    try:
        client.set(KEY, uuid.uuid4().hex, nx=True)
        found = client.get(KEY)
        server = client.info("server")
    except redis.RedisError as error:
        raise RedisDown(f"Redis does not answer: {error}") from None
    text = found.decode() if isinstance(found, bytes) else str(found)
    return f"{text}:{server.get('run_id', '')}"
