"""Checks of what the desk stands on: Redis and the database."""

from __future__ import annotations

from redis.exceptions import RedisError

from models import store
from models.errors import RedisDown
from models.urls import masked
from tasks.bootstrap import redis_url
from tasks.doctor.check import Check, Patient, Status
from tasks.redis_clients import client
from tasks.services.redis import OLDEST

SECONDS = 3.0


def redis_server(patient: Patient) -> Check:
    """Redis answers, is new enough, never evicts and keeps its data on disk."""
    if patient.trouble is not None:
        raise patient.trouble
    address = redis_url(patient.settings)
    asked = client(address, SECONDS)
    try:
        server, memory, disk = (asked.info(section) for section in ("server", "memory", "persistence"))
    except RedisError as error:
        raise RedisDown(f"Redis at {masked(address)} does not answer: {error}") from None
    finally:
        asked.close()
    return judge(address, {**server, **memory, **disk}, patient.embedded)


def judge(address: str, info: dict[str, object], embedded: bool) -> Check:
    version = str(info.get("redis_version", "0.0"))
    name = f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {version}"
    said = f"{name} at {masked(address)}" + (", started for this check" if embedded else "")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        return Check("redis", Status.FAIL, said, f"use Redis {'.'.join(map(str, OLDEST))} or newer, or Valkey")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return Check("redis", Status.WARN, f"{said}; it may evict ({policy})", "set maxmemory-policy noeviction")
    if not info.get("aof_enabled"):
        detail = f"{said}; no append-only file: what is queued is lost with it"
        return Check("redis", Status.WARN, detail, "set appendonly yes and appendfsync everysec")
    return Check("redis", Status.OK, said)


def database(patient: Patient) -> Check:
    """The database answers and has this version's schema."""
    url = patient.settings.database
    if not_made(patient):
        return Check(
            "database", Status.WARN, f"{masked(url)} is not made yet", "`desk up` or `desk db upgrade` makes it"
        )
    found, newest = store.current(url)
    said = f"{masked(url)} at revision {found or 'none'}"
    if found != newest:
        return Check("database", Status.FAIL, f"{said}, this version needs {newest}", "run `desk db upgrade`")
    return Check("database", Status.OK, said)


def not_made(patient: Patient) -> bool:
    """Whether the home's own database has no table yet, as before the first `desk up`."""
    if patient.settings.database_url is not None:
        return False
    return not (patient.settings.home / "desk.db").exists() or store.current(patient.settings.database)[0] is None
