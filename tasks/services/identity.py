"""Whose a Redis and a data folder are: each remembers the id of the first desk that used it."""

from __future__ import annotations

from contextlib import closing

from redis.exceptions import RedisError

from chordesk.models.errors import RedisDown, UsageError
from chordesk.models.files import replacing
from chordesk.models.settings import Settings
from chordesk.models.urls import masked
from chordesk.tasks.redis_clients import client, redis_url

REDIS_SECONDS = 3.0
KEY = "desk:identity"
FILE = "identity"


def require_redis(settings: Settings, desk: str) -> None:
    """Raise UsageError for a Redis of another desk than the database's, RedisDown when it does not answer."""
    address = redis_url(settings)
    try:
        with closing(client(address, REDIS_SECONDS)) as redis:
            redis.set(KEY, desk, nx=True)
            found = redis.get(KEY) or b""
            found = found.decode("ascii", "replace") if isinstance(found, bytes) else found
    except RedisError as error:
        raise RedisDown(f"Redis at {masked(address)} does not answer: {error}") from None
    if found != desk:
        raise _of_another(f"the Redis at {masked(address)}", found, desk)


def require_home(settings: Settings, desk: str) -> None:
    """Raise UsageError for a data folder, with an audit log and HALT, of another desk than that of the database."""
    path = settings.home / FILE
    if not path.exists():
        with replacing(path) as file:
            file.write(desk.encode())
    found = path.read_text(encoding="ascii", errors="replace").strip()
    if found != desk:
        raise _of_another(f"the data folder {settings.home}", found, desk)


def _of_another(what: str, found: str, desk: str) -> UsageError:
    return UsageError(
        f"{what} is of another desk ({found}) than the database ({desk})",
        remedy="give each desk its own volumes: bring back the one that belongs here, or an empty one",
    )
