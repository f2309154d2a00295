"""Clients of the desk's Redis, and the error for an address that they cannot use."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from chordesk.models.errors import RedisDown, ServiceError, SettingError
from chordesk.models.settings import Settings
from chordesk.models.urls import masked

if TYPE_CHECKING:
    import redis

# A server may vanish without a goodbye, and its connections stay open: no client waits longer for an answer. redis-py
# limits its own clients so by default; Celery's have no limit but this.
SILENT_SECONDS = 3.0
SOCKET_LIMITS = {"socket_timeout": SILENT_SECONDS, "socket_connect_timeout": SILENT_SECONDS, "socket_keepalive": True}
_REMEDY = (
    "write redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH, "
    "with the special characters of a password percent-encoded"
)


def redis_url(settings: Settings) -> str:
    """Return the redis-py URL of the desk's Redis. Raises RedisDown when none is set and none was started."""
    if settings.redis_url is None:
        raise RedisDown("no Redis is configured and none was started here")
    return settings.redis_url.get_secret_value()


def message_key(settings: Settings) -> str | None:
    """None without one beside a Redis on a private socket. Raises SettingError for another Redis without a key."""
    if settings.message_key is not None:
        return settings.message_key.get_secret_value()
    address = redis_url(settings)
    if is_private(address):
        return None
    raise SettingError(
        f"DESK_REDIS_URL={masked(address)} is no socket below a folder of this user alone, and no key signs messages",
        remedy="set DESK_MESSAGE_KEY or DESK_MESSAGE_KEY_FILE to the same in every process of the desk; "
        "`make secrets` makes one",
    )


def is_private(address: str) -> bool:
    """Return whether a URL is of a socket that is below a folder which only this user may enter."""
    parts = urlsplit(address)
    if parts.scheme != "unix":
        return False
    above = [folder.stat() for folder in Path(unquote(parts.path)).resolve().parents if folder.is_dir()]
    return any(each.st_uid == os.getuid() and not each.st_mode & 0o077 for each in above)


def client(address: str, seconds: float, *, again: bool = True) -> redis.Redis:
    """Does not connect yet. again: retry a failed command once. Raises SettingError."""
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
    """The client's own message is not repeated: it may hold a piece of a password."""
    return SettingError(f"DESK_REDIS_URL={masked(address)} is not an address of a Redis", remedy=_REMEDY)


OLDEST_REDIS = (6, 2)
# Between these versions a server reads the transactions of its own append-only file as the default user, and drops
# those that this user may not do (redis #14541, valkey #3983).
_DROPS_FROM, _KEEPS_AGAIN_VALKEY = (7, 0), (9, 0)
_LIST = "write `user default off resetpass allkeys allchannels +@all` into its access list, and restart it"
_APPEND_ONLY = "set appendonly yes and appendfsync everysec"


def server_name(info: Mapping[str, Any]) -> str:
    return f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info.get('redis_version', '?')}"


def why_unfit(info: Mapping[str, Any], default_user: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Why a desk cannot rely on a server, and the remedy. default_user: of `ACL GETUSER`, None where it may not ask.
    info: with `saves`, whether the server writes snapshots, where that is known."""
    version, named = _pair(info.get("redis_version", "0.0")), server_name(info)
    if version < OLDEST_REDIS:
        oldest = ".".join(map(str, OLDEST_REDIS))
        return f"{named} is older than {oldest}", f"use Redis {oldest} or newer, or Valkey"
    if info.get("role") == "slave":
        primary = f"{info.get('master_host')}:{info.get('master_port')}"
        return f"{named} is a replica of {primary}, which takes no writes", f"name {primary} in DESK_REDIS_URL"
    if not info.get("aof_enabled") and info.get("saves") is False:
        return f"{named} keeps nothing on disk: no append-only file, and no save", _APPEND_ONLY
    if default_user is None or "+@all" in default_user.get("categories", ()):
        return None
    if version < _DROPS_FROM or _pair(info.get("valkey_version", "0.0")) >= _KEEPS_AGAIN_VALKEY:
        return None
    return f"{named} would lose its transactions at a restart: its default user may not do them", _LIST


def why_forgetful(info: Mapping[str, Any]) -> tuple[str, str] | None:
    """What a server that a desk can rely on may still lose, and the remedy."""
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return f"it may evict ({policy})", "set maxmemory-policy noeviction"
    if not info.get("aof_enabled"):
        return "no append-only file: queued messages are lost if it stops", _APPEND_ONLY
    return None


def _pair(version: object) -> tuple[int, ...]:
    return tuple(int(part) for part in str(version).split(".")[:2])


def fit(server: redis.Redis, address: str) -> dict[str, Any]:
    """Return what a server tells of itself. Raises ServiceError for one that is unfit for a desk, redis.RedisError."""
    import redis

    info, user = server.info(), None
    with suppress(redis.ResponseError):  # this login may not ask, as with the access lists of deploy/
        user = server.acl_getuser("default")
    with suppress(redis.ResponseError):
        info["saves"] = bool(server.config_get("save").get("save"))
    if (found := why_unfit(info, user)) is not None:
        raise ServiceError(f"{found[0]} ({masked(address)})", remedy=found[1])
    return info


def require_fit(address: str) -> str | None:
    """Return what the desk's server may lose. Raises ServiceError for one that a desk cannot rely on. One that is away
    is waited for by others."""
    import redis

    with suppress(redis.RedisError), closing(client(address, SILENT_SECONDS, again=False)) as server:
        if (found := why_forgetful(fit(server, address))) is not None:
            return f"Redis at {masked(address)}: {found[0]}; {found[1]}"
    return None


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
            except redis.AuthenticationError as error:
                remedy = "bring back the secrets that it was started with, or start it anew with those of now"
                raise RedisDown(f"Redis at {masked(address)} knows no such login: {error}", remedy=remedy) from None
            except redis.RedisError as error:  # BusyLoadingError while the append-only file is read
                if time.monotonic() > until:
                    raise RedisDown(f"Redis at {masked(address)} does not answer: {error}") from None
            time.sleep(0.05)
    finally:
        server.close()
