"""The registry of kept threads in Redis: who keeps which thread, where it lives, and who may run a turn in it.

desk:thread:{role}:{subject}        the record, JSON
desk:thread-lease:{role}:{subject}  the token of the one conversation that may run turns; expires
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import redis.asyncio
import redis.exceptions
from pydantic import BaseModel, ConfigDict, ValidationError

from agents.codex.config import RuntimeConfig
from models.errors import RedisDown

log = logging.getLogger(__name__)

_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
_RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
# One round trip to take the lease and read the record.
_ACQUIRE = """
local got = redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
return {got and 1 or 0, redis.call('get', KEYS[2])}
"""
# A record is written by whoever holds the lease and by nobody else; the lease ends with it.
_SAVE = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[2], ARGV[2])
return redis.call('del', KEYS[1])
"""
_FORGET = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[2]) end return 0"

POLL_SECONDS = (0.05, 0.25)


class ThreadRecord(BaseModel):
    """What the registry knows of one kept thread. Times are Unix seconds."""

    model_config = ConfigDict(frozen=True)

    thread_id: str
    mode: str = "legacy"
    turns: int
    last_turn_id: str | None
    created_at: float
    updated_at: float
    reason: str
    toolset_hash: str
    binary_version: str
    home: str
    model: str


class Lease:
    """The right to run turns in one kept thread, if `held`, and the thread's record as it was found.

    `lost` is set when the lease could not be renewed, `ended` when it was given back.
    """

    def __init__(self, registry: ThreadRegistry, role: str, subject: str) -> None:
        self._registry = registry
        self.record_key = f"desk:thread:{role}:{subject}"
        self.key = f"desk:thread-lease:{role}:{subject}"
        self.token = secrets.token_hex(12)
        self.held = False
        self.lost = False
        self.ended = False
        self.record: ThreadRecord | None = None

    async def save(self, record: ThreadRecord) -> bool:
        """Writes the record and gives the lease back, if it is still ours; says whether it did."""
        saved = await self._registry.run(_SAVE, [self.key, self.record_key], [self.token, record.model_dump_json()])
        self.ended = True
        return bool(saved)

    async def forget(self) -> None:
        """Drops the record, so that the next conversation starts afresh."""
        await self._registry.run(_FORGET, [self.key, self.record_key], [self.token])


class ThreadRegistry:
    """Records and leases. client: a redis.asyncio client; lease_seconds: renewed every third of it."""

    def __init__(self, client: redis.asyncio.Redis, lease_seconds: float) -> None:
        self._client = client
        self._lease_ms = int(lease_seconds * 1000)

    @asynccontextmanager
    async def hold(self, role: str, subject: str, wait: Callable[[], float]) -> AsyncIterator[Lease]:
        """The thread's lease for the length of the block; not `held` when the thread stayed busy.

        wait() says how many more seconds to go on asking. Raises RedisDown.
        """
        lease = Lease(self, role, subject)
        if not await self._acquire(lease, wait):
            yield lease
            return
        renewal = asyncio.create_task(self._renew(lease))
        try:
            yield lease
        finally:
            renewal.cancel()
            if not lease.ended:
                with contextlib.suppress(RedisDown):
                    await self.run(_RELEASE, [lease.key], [lease.token])

    async def run(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        async with _redis_errors():
            return await self._client.eval(script, len(keys), *keys, *arguments)

    async def _acquire(self, lease: Lease, wait: Callable[[], float]) -> bool:
        while True:
            keys, arguments = [lease.key, lease.record_key], [lease.token, self._lease_ms]
            got, raw = await self.run(_ACQUIRE, keys, arguments)
            lease.record = _readable(raw, lease.record_key)
            if got:
                lease.held = True
                return True
            left = wait()
            if left <= 0:
                return False
            await asyncio.sleep(min(left, random.uniform(*POLL_SECONDS)))

    async def _renew(self, lease: Lease) -> None:
        while not lease.lost:
            await asyncio.sleep(self._lease_ms / 3000)
            try:
                renewed = await self.run(_RENEW, [lease.key], [lease.token, self._lease_ms])
            except RedisDown as error:
                log.warning("the lease %s could not be renewed: %s", lease.key, error)
                continue
            if not renewed:
                log.warning("the lease %s is no longer ours", lease.key)
                lease.lost = True


def _readable(raw: bytes | None, key: str) -> ThreadRecord | None:
    """The record; None when there is none or it cannot be read."""
    if raw is None:
        return None
    try:
        return ThreadRecord.model_validate_json(raw)
    except ValidationError as error:
        log.warning("%s is not readable and is left: %s", key, error)
        return None


def why_fresh(record: ThreadRecord | None, wanted: ThreadRecord, config: RuntimeConfig) -> str | None:
    """Why a kept thread may not be resumed, as the new thread's reason; None when it may be.

    wanted: the record a new thread would get, which carries this worker's home, model and tools.
    """
    if record is None:
        return "initial"
    if record.home != wanted.home:
        return "lost"
    if record.toolset_hash != wanted.toolset_hash:
        return "toolset_changed"
    if record.model != wanted.model:
        return "model_changed"
    if time.time() - record.created_at > config.max_thread_age_hours * 3600:
        return "rollover:age"
    if record.turns >= config.max_thread_turns:
        return "rollover:turns"
    return None


@asynccontextmanager
async def _redis_errors() -> AsyncIterator[None]:
    try:
        yield
    except (redis.exceptions.RedisError, OSError) as error:
        raise RedisDown(f"the thread registry's Redis does not answer: {error}") from error
