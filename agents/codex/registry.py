"""The registry of kept threads in Redis: their records, and the leases to run turns in them.

desk:thread:{role}:{subject}        the record, JSON; expires when nobody used the thread
desk:thread-lease:{role}:{subject}  the one conversation that may run turns, as `token:nonce`; expires
desk:thread-token                   the last fencing token: each lease gets the next one

What Redis has lost is restored from the newest copy that the vault has of each thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import redis.asyncio
import redis.exceptions
import structlog
from pydantic import ValidationError

from chordesk.agents.codex.launch import ThreadLimits
from chordesk.agents.runtime import ROLLOUT_DAYS, Registered, ThreadRecord
from chordesk.models.errors import RedisDown
from chordesk.models.tables.runtime import KeptThread

if TYPE_CHECKING:
    from chordesk.agents.codex.rollouts import ThreadVault

log = structlog.get_logger(__name__)

RECORD, LEASE, TOKEN = "desk:thread:", "desk:thread-lease:", "desk:thread-token"

_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
_RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
_FORGET = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[2]) end return 0"
# A record that cannot be read counts as generation 0, as if there were none.
_STANDS_AT = """
local function stands_at(raw)
  local read, record = pcall(cjson.decode, raw or '{}')
  if not read or type(record) ~= 'table' then return 0, 0 end
  return tonumber(record.generation) or 0, tonumber(record.token) or 0
end
"""
# One round trip to take the lease and read the record. A lost counter begins again at the milliseconds of Redis' clock,
# beyond every token that there was.
_ACQUIRE = (
    _STANDS_AT
    + """
local raw = redis.call('get', KEYS[2])
local generation = stands_at(raw)
local token = 0
if redis.call('exists', KEYS[1]) == 0 then
  if redis.call('exists', KEYS[3]) == 0 then
    local now = redis.call('time')
    redis.call('set', KEYS[3], string.format('%.0f', now[1] * 1000 + now[2] / 1000))
  end
  token = redis.call('incr', KEYS[3])
  redis.call('set', KEYS[1], token .. ':' .. ARGV[1], 'PX', ARGV[2])
end
return {token, generation, raw}
"""
)
# Written by the holder of the lease, over the very generation that it found, and never over a later lease's.
_SAVE = (
    _STANDS_AT
    + """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
local generation, written = stands_at(redis.call('get', KEYS[2]))
if generation ~= tonumber(ARGV[3]) or written > tonumber(ARGV[4]) then return 0 end
redis.call('set', KEYS[2], ARGV[2], 'PX', ARGV[5])
return 1
"""
)
# Of a record after its last use: retention has deleted the thread before.
_RECORD_MS = int((ROLLOUT_DAYS + 1) * 86_400_000)

POLL_SECONDS = (0.05, 0.25)


class Lease:
    """The right to run turns in one kept thread, if `held`, and the thread's record as it stands.

    token: its fencing token; a later lease has a greater one. `lost` is set when it could not be renewed.
    """

    def __init__(self, registry: ThreadRegistry, role: str, subject: str) -> None:
        self._registry = registry
        self.role, self.subject = role, subject
        self.record_key = f"{RECORD}{role}:{subject}"
        self.key = f"{LEASE}{role}:{subject}"
        self.nonce = secrets.token_hex(12)
        self.token = 0
        self.generation = 0
        self.lost = False
        self.record: ThreadRecord | None = None

    @property
    def held(self) -> bool:
        return self.token > 0

    @property
    def value(self) -> str:
        return f"{self.token}:{self.nonce}"

    def thread(self, record: ThreadRecord, parent_id: str | None, before_turn: str | None = None) -> KeptThread:
        """Return the vault's row of the record's thread. parent_id: the thread that it is a fork of, if it is one."""
        same = record.model_dump(include={"thread_id", "mode", "model", "reason"})
        same |= {"role": self.role, "subject": self.subject, "worker": record.owner}
        return KeptThread(**same, parent_id=parent_id, before_turn=before_turn)

    async def save(self, record: ThreadRecord) -> bool:
        """As the next generation, if the lease is still ours and the record unchanged; return whether. Raises
        RedisDown."""
        new = record.model_copy(update={"generation": self.generation + 1, "token": self.token})
        arguments = [self.value, new.model_dump_json(), self.generation, self.token, _RECORD_MS]
        saved = bool(await self._registry.run(_SAVE, [self.key, self.record_key], arguments))
        if saved:
            self.record, self.generation = new, new.generation
        return saved

    async def drop(self, why: str) -> bool:
        """Let the next conversation start afresh; return whether that was written. Raises RedisDown, ServiceError."""
        if self.record is None:
            return True
        dropped = self.record.model_copy(update={"dropped": why})
        if not await self.save(dropped):
            return False
        if self._registry.vault is not None:
            await asyncio.to_thread(self._registry.vault.drop, dropped)
        return True

    async def forget(self) -> bool:
        forgotten = bool(await self._registry.run(_FORGET, [self.key, self.record_key], [self.value]))
        if forgotten:
            self.record, self.generation = None, 0
        return forgotten


class ThreadRegistry:
    """Records and leases. client: a redis.asyncio client; lease_seconds: renewed every third of it. vault: has the
    records that Redis may lose."""

    def __init__(self, client: redis.asyncio.Redis, lease_seconds: float, vault: ThreadVault | None = None) -> None:
        self._client, self.vault = client, vault
        self._lease_ms = int(lease_seconds * 1000)

    @asynccontextmanager
    async def hold(self, role: str, subject: str, wait: Callable[[], float]) -> AsyncIterator[Lease]:
        """Take the thread's lease for the length of the block; it is not `held` when the thread stayed busy. wait()
        returns the seconds for which to keep trying. Raises RedisDown, ServiceError."""
        lease = Lease(self, role, subject)
        async with _redis_errors():
            lost = self.vault is not None and not await self._client.exists(lease.record_key)
        if lost:
            await self.restore(role, subject)
        if not await self._acquire(lease, wait):
            yield lease
            return
        renewal = asyncio.create_task(self._renew(lease))
        try:
            yield lease
        finally:
            renewal.cancel()
            with contextlib.suppress(RedisDown):
                await self.run(_RELEASE, [lease.key], [lease.value])

    async def records(self) -> list[Registered]:
        async with _redis_errors():
            keys = sorted([key async for key in self._client.scan_iter(match=f"{RECORD}*", count=1000)])
            names = [_text(key).removeprefix(RECORD).partition(":") for key in keys]
            leases = [f"{LEASE}{role}:{subject}" for role, _, subject in names]
            values = await self._client.mget(keys + leases) if keys else []
        found = [
            Registered(role, subject, record, held is not None)
            for key, (role, _, subject), raw, held in zip(
                keys, names, values[: len(keys)], values[len(keys) :], strict=True
            )
            if (record := _readable(raw, _text(key))) is not None
        ]
        return sorted(found, key=lambda one: one.record.updated_at, reverse=True)

    async def restore(self, *name: str) -> int:
        """Write the records that Redis lacks as the vault has them; return how many. Raises RedisDown, ServiceError."""
        assert self.vault is not None
        found = await asyncio.to_thread(self.vault.current, *name)
        async with _redis_errors():
            written = [
                await self._client.set(f"{RECORD}{role}:{subject}", record, nx=True, px=_RECORD_MS)
                for (role, subject), record in found.items()
            ]
        return sum(map(bool, written))

    async def run(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        async with _redis_errors():
            return await self._client.eval(script, len(keys), *keys, *arguments)

    async def _acquire(self, lease: Lease, wait: Callable[[], float]) -> bool:
        while True:
            keys, arguments = [lease.key, lease.record_key, TOKEN], [lease.nonce, self._lease_ms]
            lease.token, lease.generation, raw = await self.run(_ACQUIRE, keys, arguments)
            lease.record = _readable(raw, lease.record_key)
            if lease.held:
                return True
            left = wait()
            if left <= 0:
                return False
            await asyncio.sleep(min(left, random.uniform(*POLL_SECONDS)))

    async def _renew(self, lease: Lease) -> None:
        while not lease.lost:
            await asyncio.sleep(self._lease_ms / 3000)
            try:
                renewed = await self.run(_RENEW, [lease.key], [lease.value, self._lease_ms])
            except RedisDown as error:
                log.warning("thread_lease.not_renewed", key=lease.key, error=str(error))
                continue
            if not renewed:
                log.warning("thread_lease.lost", key=lease.key)
                lease.lost = True


def _readable(raw: bytes | str | None, key: str) -> ThreadRecord | None:
    if raw is None:
        return None
    try:
        return ThreadRecord.model_validate_json(raw)
    except ValidationError as error:
        log.warning("thread_record.unreadable", key=key, error=str(error))
        return None


def _text(key: bytes | str) -> str:
    return key.decode() if isinstance(key, bytes) else key


def why_fresh(record: ThreadRecord | None, wanted: ThreadRecord, limits: ThreadLimits | None) -> str | None:
    """Return the reason why a kept thread may not be resumed, for the new thread; None when it may. wanted: the record
    a new thread would get, which carries this worker's home, login, model, tools and mode. limits: None for none."""
    if record is None:
        return "initial"
    if record.dropped is not None:
        return record.dropped
    if record.rollout_digest is None and record.home != wanted.home:
        return "lost"
    if record.login and record.login != wanted.login:
        return "account_changed"
    if record.toolset_hash != wanted.toolset_hash:
        return "toolset_changed"
    if record.model != wanted.model:
        return "model_changed"
    return _past(record, limits) if limits is not None else None


def _past(record: ThreadRecord, limits: ThreadLimits) -> str | None:
    if time.time() - record.updated_at > limits.age_hours * 3600:
        return "rollover:age"
    if record.turns >= limits.turns:
        return "rollover:turns"
    if record.context > limits.tokens:
        return "rollover:tokens"
    return None


@asynccontextmanager
async def _redis_errors() -> AsyncIterator[None]:
    try:
        yield
    except (redis.exceptions.RedisError, OSError) as error:
        raise RedisDown(f"the thread registry's Redis does not answer: {error}") from error
