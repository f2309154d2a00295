"""Checks of the desk's services: Redis and the database."""

from __future__ import annotations

from contextlib import closing

from redis.exceptions import RedisError

from chordesk.models.database import store
from chordesk.models.errors import RedisDown
from chordesk.models.urls import masked
from chordesk.tasks.bootstrap import redis_url
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus
from chordesk.tasks.redis_clients import client
from chordesk.tasks.services.redis import OLDEST

SECONDS = 3.0


def redis_server(context: CheckContext) -> Check:
    """Check that Redis answers, is new enough, never evicts and keeps its data on disk."""
    if context.trouble is not None:
        raise context.trouble
    address = redis_url(context.settings)
    try:
        with closing(client(address, SECONDS)) as redis:
            info = {**redis.info("server"), **redis.info("memory"), **redis.info("persistence")}
    except RedisError as error:
        raise RedisDown(f"Redis at {masked(address)} does not answer: {error}") from None
    return judge(address, info, context.embedded)


def judge(address: str, info: dict[str, object], embedded: bool) -> Check:
    version = str(info.get("redis_version", "0.0"))
    name = f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {version}"
    found = f"{name} at {masked(address)}" + (", started for this check" if embedded else "")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        return Check("redis", CheckStatus.FAIL, found, f"use Redis {'.'.join(map(str, OLDEST))} or newer, or Valkey")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return Check("redis", CheckStatus.WARN, f"{found}; it may evict ({policy})", "set maxmemory-policy noeviction")
    if not info.get("aof_enabled"):
        found = f"{found}; no append-only file: queued messages are lost if it stops"
        return Check("redis", CheckStatus.WARN, found, "set appendonly yes and appendfsync everysec")
    return Check("redis", CheckStatus.OK, found)


def database(context: CheckContext) -> Check:
    """Check that the database answers and has this version's schema."""
    url = context.settings.database
    if not_made(context):
        return Check("database", CheckStatus.WARN, f"{masked(url)} does not exist yet", "`desk db upgrade` creates it")
    revision, newest = store.current(url)
    found = f"{masked(url)} at revision {revision or 'none'}"
    if revision != newest:
        return Check("database", CheckStatus.FAIL, f"{found}, this version needs {newest}", "run `desk db upgrade`")
    return Check("database", CheckStatus.OK, found)


def not_made(context: CheckContext) -> bool:
    """Return True if the home's own database has no table yet, as before the first `desk up`."""
    if context.settings.database_url is not None:
        return False
    return not (context.settings.home / "desk.db").exists() or store.current(context.settings.database)[0] is None
