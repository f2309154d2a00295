"""Clients of the desk's Redis, and the error for an address that they cannot use."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from models.errors import SettingError
from models.urls import masked

_REMEDY = (
    "write redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH, "
    "with the special characters of a password percent-encoded"
)


def client(address: str, seconds: float, *, again: bool = True) -> redis.Redis:
    """A client of the server at this URL that waits so long for each answer; it does not connect yet. again: a command
    that fails is sent once more, after a pause. Raises SettingError."""
    tries = {} if again else {"retry": Retry(NoBackoff(), 0)}
    try:
        made = redis.Redis.from_url(address, socket_timeout=seconds, socket_connect_timeout=seconds, **tries)
        made.connection_pool.make_connection()  # looks at the options; it does not connect either
    except (TypeError, ValueError, redis.RedisError):
        raise wrong_url(address) from None
    return made


def wrong_url(address: str) -> SettingError:
    """The error for a URL that a client cannot use. The client's own words are not repeated: they may hold a piece of
    a password."""
    return SettingError(f"DESK_REDIS_URL={masked(address)} is not an address of a Redis", remedy=_REMEDY)
