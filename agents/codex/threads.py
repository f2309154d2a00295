"""Threads of an app-server: started, resumed, forked, and their turns."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis.asyncio
import redis.exceptions
import structlog
from pydantic import ValidationError

from chordesk.agents.codex.launch import RuntimeConfig, ThreadLimits
from chordesk.agents.codex.protocol import needs_environment, thread_settings
from chordesk.agents.codex.rollouts import RolloutFiles, Shortened, relative
from chordesk.agents.codex.servers import AppServer
from chordesk.agents.runtime import ROLLOUT_DAYS, ConversationSpec, Registered, ThreadRecord
from chordesk.models.errors import CodexError, ProcessDied, RedisDown, RpcError, ThreadInUse
from chordesk.models.tables.runtime import KeptThread

if TYPE_CHECKING:
    from chordesk.agents.codex.rollouts import ThreadVault


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


log = structlog.get_logger(__name__)

# The process of a thread's last conversation, which may be draining, still unloads it for a moment.
UNLOAD_SECONDS = 5.0
UNLOAD_PAUSE = 0.02
UNLOADING = ("is closing", "active writer")


@dataclass(frozen=True, slots=True)
class OpenedThread:
    """A thread ready for turns, and the reason for this one."""

    thread_id: str
    reason: str
    path: str | None = None  # its rollout, relative to CODEX_HOME
    shortened: Shortened | None = None  # what that was before its earlier turns were left out


def wanted_record(spec: ConversationSpec, server: AppServer, home: str, owner: str) -> ThreadRecord:
    now = time.time()
    return ThreadRecord(
        thread_id="",
        mode=spec.mode,
        turns=0,
        last_turn_id=None,
        created_at=now,
        updated_at=now,
        reason="initial",
        toolset_hash=spec.toolset_hash,
        binary_version=server.launch.version,
        owner=owner,
        home=home,
        model=spec.model,
        login=server.launch.login,
    )


async def start(server: AppServer, spec: ConversationSpec, reason: str) -> OpenedThread:
    tools = [
        {"type": "function", "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in spec.tools.specs()
    ]
    raw = {"experimentalRawEvents": True}  # a kept thread has the provider's items in its rollout
    kind: dict[str, Any] = {"historyMode": "legacy"} if spec.keep else {"ephemeral": True, **raw}
    if not needs_environment(spec.approvals):
        kind["environments"] = []
    params = {**_common(server, spec), "dynamicTools": tools, **kind}
    opened = _opened(await server.client.request("thread/start", params), reason)
    if spec.items:
        injected = {"threadId": opened.thread_id, "items": [dict(item) for item in spec.items]}
        await server.client.request("thread/inject_items", injected)
    return opened


async def resume_or_start(
    server: AppServer, spec: ConversationSpec, record: ThreadRecord | None, why: str | None
) -> OpenedThread:
    """A thread that is gone is `lost`. Raises CodexError when neither can be done."""
    if record is None or why is not None:
        return await start(server, spec, why or "initial")
    try:
        return await resume(server, spec, record.thread_id)
    except RpcError as error:
        log.warning("thread.not_resumed", thread=record.thread_id, role=spec.role, error=str(error))
        return await start(server, spec, "lost")


async def fork_or_start(
    server: AppServer,
    spec: ConversationSpec,
    record: ThreadRecord | None,
    why: str | None,
    cause: str,
    source: Path | None = None,
) -> OpenedThread:
    """Fork a thread that may not be resumed at its last completed turn; start a fresh one when it has none. cause:
    `busy` or `retry`. source: the rollout to fork from, when it is not the one in the process's home. Raises CodexError
    when neither can be done."""
    if record is None or record.last_turn_id is None or why is not None:
        return await start(server, spec, why if why not in (None, "initial") else cause)
    try:
        return await fork(server, spec, record.thread_id, cause, source, lastTurnId=record.last_turn_id)
    except RpcError as error:
        log.warning("thread.not_forked", thread=record.thread_id, role=spec.role, error=str(error))
        return await start(server, spec, "lost")


async def fork(
    server: AppServer, spec: ConversationSpec, thread_id: str, cause: str, source: Path | None, **point: str
) -> OpenedThread:
    """source: its rollout, when that is not in the process's home. point: where to fork; without one at the end. Raises
    CodexError."""
    path = {} if source is None else {"path": str(source)}
    params = {**_common(server, spec), "threadId": thread_id, "excludeTurns": True, **path, **point}
    return _opened(await server.client.request("thread/fork", params), f"forked:{cause}")


async def resume(server: AppServer, spec: ConversationSpec, thread_id: str) -> OpenedThread:
    loop = asyncio.get_running_loop()
    until = loop.time() + UNLOAD_SECONDS
    params = {**_common(server, spec), "threadId": thread_id, "excludeTurns": True}
    while True:
        try:
            return _opened(await server.client.request("thread/resume", params), "resumed")
        except RpcError as error:
            if not any(text in str(error) for text in UNLOADING):
                raise
            if loop.time() > until:
                raise ThreadInUse(f"thread {thread_id} is still in use here: {error}") from error
        await asyncio.sleep(UNLOAD_PAUSE)


async def start_turn(
    server: AppServer,
    thread_id: str,
    text: str,
    schema: dict[str, Any],
    metadata: Mapping[str, str],
    options: Mapping[str, str | None],
) -> str:
    """text: empty to go on from what the thread has. options: effort and summary; None leaves the model's own. Raises
    CodexError."""
    params = {
        **{name: value for name, value in options.items() if value is not None},
        "threadId": thread_id,
        "input": [{"type": "text", "text": text}] if text else [],
        "outputSchema": schema,
        "responsesapiClientMetadata": dict(metadata),
    }
    answer = await server.client.request("turn/start", params)
    return str(answer["turn"]["id"])


async def interrupt(server: AppServer, thread_id: str, turn_id: str, seconds: float) -> None:
    """Request a turn's end, which `turn/completed` then confirms. Raises CodexError."""
    await server.client.request("turn/interrupt", {"threadId": thread_id, "turnId": turn_id}, seconds)


async def unloaded(servers: Callable[[], Iterable[AppServer]], thread_id: str) -> bool:
    """Wait until none of these processes has the thread in memory. servers: called each time: one may end meanwhile."""
    loop = asyncio.get_running_loop()
    until = loop.time() + UNLOAD_SECONDS
    while await _loaded(servers(), thread_id):
        if loop.time() > until:
            return False
        await asyncio.sleep(UNLOAD_PAUSE)
    return True


def unsubscribe(server: AppServer, thread_id: str) -> None:
    server.client.post("thread/unsubscribe", {"threadId": thread_id})


async def _loaded(servers: Iterable[AppServer], thread_id: str) -> bool:
    for server in servers:
        try:
            answer = await server.client.request("thread/loaded/list", {})
        except ProcessDied:
            continue
        if thread_id in answer["data"]:
            return True
    return False


def _opened(answer: Mapping[str, Any], reason: str) -> OpenedThread:
    """path is null for a thread that is not kept on disk."""
    thread = answer["thread"]
    return OpenedThread(str(thread["id"]), reason, relative(thread.get("path")))


def _common(server: AppServer, spec: ConversationSpec) -> dict[str, Any]:
    common: dict[str, Any] = {
        "model": spec.model,
        "modelProvider": server.launch.model_provider,
        "baseInstructions": spec.base_instructions,
        **thread_settings(spec.approvals),
    }
    if spec.web_search is not None:
        common["config"] = {**common.get("config", {}), **_searching(spec.web_search)}
    if spec.verbosity is not None:
        common["config"] = {**common.get("config", {}), "model_verbosity": spec.verbosity}
    # Commands start in a folder of their own, not among the threads of CODEX_HOME.
    return {**common, "cwd": str(server.work)} if needs_environment(spec.approvals) else common


def _searching(hosts: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of a thread with a model that may search the web; those of the process turn it off."""
    return {"web_search": "live", **({"tools.web_search": {"allowed_domains": list(hosts)}} if hosts else {})}


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """Where the kept thread of a spec is opened: in an app-server, under the lease of its record, with the rollouts of
    this home. wanted: the record that a fresh thread would get."""

    server: AppServer
    spec: ConversationSpec
    lease: Lease
    wanted: ThreadRecord
    files: RolloutFiles


async def open_kept(
    place: ThreadPlace, config: RuntimeConfig, processes: Callable[[], Iterable[AppServer]]
) -> OpenedThread:
    """Return the thread of a conversation: resumed, forked or fresh. processes: app-servers of this home that may have
    the thread in memory. Raises CodexError, and ServiceError when the rollout's copy cannot be fetched now: no other
    thread is opened then, because its record would replace this one."""
    server, spec, lease, wanted, files = place.server, place.spec, place.lease, place.wanted, place.files
    record = lease.record
    answers = config.thread_answers if not spec.whole else None
    shortened = None
    why = why_fresh(record, wanted, await _limits(config, spec, wanted) if not spec.whole else None)
    if spec.opening == "fresh" and why is None:
        why = "retry"
    if not lease.held or spec.opening == "fork":
        return await _fork(place, why, "retry" if lease.held else "busy", answers)
    try:
        if record is not None and why is None:
            if not await files.bring(record, partial(unloaded, processes)):
                why = "lost"
            elif answers is not None:
                shortened = await files.trim(record, answers, partial(unloaded, processes))
        opened = await resume_or_start(server, spec, record, why)
    except ThreadInUse as error:  # its writer may never end, and writes where nobody reads
        log.warning("thread.in_use", role=spec.role, error=str(error))
        return await _fork(place, why, "busy", answers)
    return replace(opened, shortened=shortened) if opened.reason == "resumed" else opened


async def _limits(config: RuntimeConfig, spec: ConversationSpec, wanted: ThreadRecord) -> ThreadLimits:
    """Return the limits of a kept thread. Half of a known context is for the next question, its tools and answer."""
    limits = config.thread_limits(wanted.mode)
    context = (await config.facts(spec.model)).context if config.facts is not None else None
    return limits._replace(tokens=min(limits.tokens, context // 2)) if context is not None else limits


async def _fork(place: ThreadPlace, why: str | None, cause: str, answers: int | None) -> OpenedThread:
    server, spec, record = place.server, place.spec, place.lease.record
    if record is None or why is not None:
        return await fork_or_start(server, spec, record, why, cause)
    async with place.files.source(record, answers) as (found, path):
        return await fork_or_start(server, spec, record, None if found else "lost", cause, path)


async def fork_kept(place: ThreadPlace, source: ThreadRecord, before_turn: str | None) -> ThreadRecord:
    """Fork a thread, store its copy in the vault and register it under the lease. Raises CodexError, RedisDown."""
    async with place.files.source(source) as (found, path):
        if not found:
            raise CodexError(
                f"there is no copy of thread {source.thread_id} to fork from",
                remedy="`desk threads list` shows the threads that are kept",
            )
        point = {"beforeTurnId": before_turn} if before_turn is not None else {}
        opened = await fork(place.server, place.spec, source.thread_id, "manual", path, **point)
    try:
        return await _register(place, _record(place.wanted, source, opened, before_turn), source, before_turn)
    finally:
        unsubscribe(place.server, opened.thread_id)


def _record(wanted: ThreadRecord, source: ThreadRecord, opened: OpenedThread, before_turn: str | None) -> ThreadRecord:
    turns = source.turn_ids
    inherited = turns[: turns.index(before_turn)] if before_turn in turns else turns
    update = {
        "thread_id": opened.thread_id,
        "rollout_path": opened.path,
        "reason": opened.reason,
        "turns": len(inherited),
        "turn_ids": inherited,
        "last_turn_id": inherited[-1] if inherited else None,
        # A fork has the tools that its thread was started with.
        "toolset_hash": source.toolset_hash or wanted.toolset_hash,
    }
    return wanted.model_copy(update=update)


async def _register(
    place: ThreadPlace, record: ThreadRecord, source: ThreadRecord, before_turn: str | None
) -> ThreadRecord:
    lease = place.lease
    thread = lease.thread(record, source.thread_id, before_turn)
    update = {"generation": lease.generation + 1, "token": lease.token}
    kept = await place.files.keep(thread, record.model_copy(update=update))
    if kept is None or not await lease.save(kept):
        raise CodexError(f"the fork of thread {source.thread_id} could not be kept", remedy="try again")
    assert lease.record is not None
    return lease.record
