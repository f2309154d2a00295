"""Clients of the desk's Redis, and the error for an address that they cannot use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chordesk.models.errors import RedisDown, SettingError
from chordesk.models.settings import Settings
from chordesk.models.urls import masked

if TYPE_CHECKING:
    import redis

# A server may vanish without a goodbye, and its connections stay open: no client waits longer for an answer. redis-py
# limits its own clients so by default; Celery's have no limit but this.
SILENT_SECONDS = 3.0
SOCKET_LIMITS = {
    "socket_timeout": SILENT_SECONDS,
    "socket_connect_timeout": SILENT_SECONDS,
    "socket_keepalive": True,
}
_REMEDY = (
    "write redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH, "
    "with the special characters of a password percent-encoded"
)


def redis_url(settings: Settings) -> str:
    """Return the redis-py URL of the desk's Redis. Raises RedisDown when none is set and none was started."""
    if settings.redis_url is None:
        raise RedisDown("no Redis is configured and none was started here")
    return settings.redis_url.get_secret_value()


def client(address: str, seconds: float, *, again: bool = True) -> redis.Redis:
    """Return a client of the server at this URL that waits `seconds` for each answer; it does not connect yet. again:
    retry a failed command once, after a pause. Raises SettingError."""
    import redis  # a command without Redis has no use for it
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    tries = {} if again else {"retry": Retry(NoBackoff(), 0)}
    try:
        made = redis.Redis.from_url(address, socket_timeout=seconds, socket_connect_timeout=seconds, **tries)
        made.connection_pool.make_connection()  # checks the options; it does not connect either
    except (TypeError, ValueError, redis.RedisError):
        raise wrong_url(address) from None
    return made


def wrong_url(address: str) -> SettingError:
    """Return the error for a URL that a client cannot use. The client's own message is not repeated: it may hold a
    piece of a password."""
    return SettingError(f"DESK_REDIS_URL={masked(address)} is not an address of a Redis", remedy=_REMEDY)


def wait_ready(address: str, seconds: float) -> None:
    """Return once the server at this URL answers and has loaded its data. Raises RedisDown after `seconds`."""
    import redis

    until = time.monotonic() + seconds
    server = client(address, 2.0)
    try:
        while True:
            try:
                server.ping()
                return
            except redis.RedisError as error:  # BusyLoadingError while the append-only file is read
                if time.monotonic() > until:
                    raise RedisDown(f"Redis at {masked(address)} does not answer: {error}") from None
            time.sleep(0.05)
    finally:
        server.close()
