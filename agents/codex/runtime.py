"""The Codex runtime of one worker process: two pools of app-servers, and the conversations in them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import redis.asyncio

from agents.codex.catalog import Launch, prepare
from agents.codex.config import RuntimeConfig
from agents.codex.conversation import Conversation, ConversationSpec, Opened
from agents.codex.homes import Home, claim_home
from agents.codex.opening import fork_or_start, resume, resume_or_start, start, wanted_record
from agents.codex.pool import Pool
from agents.codex.process import AppServer
from agents.codex.threads import Lease, ThreadRecord, ThreadRegistry, why_fresh
from models.errors import CodexError, ProcessDied, RedisDown, RpcTimeout

log = logging.getLogger(__name__)

INTERRUPTED_SECONDS = 9.0  # an interrupted turn ends within this, or its process is killed


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One app-server process as it is now. age in seconds, rss_mb in MiB."""

    kind: str
    pid: int
    age: float
    turns: int
    in_flight: int
    rss_mb: float


class CodexRuntime:
    """One per worker process; every method is for the asyncio loop it was started on.

    registry: a redis.asyncio client, used for kept threads only and not closed here. Nothing runs before
    start(), and no app-server before the first conversation.
    """

    def __init__(self, config: RuntimeConfig, registry: redis.asyncio.Redis) -> None:
        self._config = config
        self._registry = ThreadRegistry(registry, config.lease_seconds)
        self._home: Home | None = None
        self._kept: Pool | None = None
        self._ephemeral: Pool | None = None
        self._active: set[Conversation] = set()
        self._idle = asyncio.Event()
        self._closing = False

    async def start(self) -> None:
        """Finds the binary, writes the catalog, claims a home. Raises BinaryMissing, LoginMissing, CodexError."""
        launch: Launch = await prepare(self._config)
        self._home = claim_home(self._config.home, self._config.worker)
        self._kept = Pool("kept", launch, self._home.of("kept"), self._config, self._config.kept_processes)
        self._ephemeral = Pool("ephemeral", launch, self._home.of("ephemeral"), self._config)

    async def close(self, grace_seconds: float) -> None:
        """Lets running turns end for the grace time, interrupts the rest, ends the processes, frees the home."""
        self._closing = True
        await self._wait_idle(grace_seconds)
        for conversation in self._active:
            conversation.interrupt()
        await self._wait_idle(INTERRUPTED_SECONDS if self._active else 0)
        await asyncio.gather(*(pool.close() for pool in (self._kept, self._ephemeral) if pool is not None))
        if self._home is not None:
            self._home.release()
            self._home = None

    def status(self) -> list[ProcessStatus]:
        """Every process that runs, draining ones too."""
        return [
            ProcessStatus(one.kind, one.pid, one.age, one.turns, one.in_flight, one.rss_mb())
            for pool in (self._kept, self._ephemeral)
            if pool is not None
            for one in pool.processes
        ]

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[Conversation]:
        """A thread for (role, subject), kept or ephemeral, with a turn slot until the block ends.

        deadline: loop.time() by which everything in the block has to be over. A kept thread that is busy is
        waited for during the first half of the time until then; in the second half a fork runs instead.
        Raises CodexError, RedisDown; those with `retryable` may be tried again.
        """
        if self._closing:
            raise ProcessDied("the Codex runtime is closing")
        if self._kept is None or self._ephemeral is None:
            raise CodexError("the Codex runtime was not started")
        if not spec.keep:
            async with self._leased(self._ephemeral, deadline) as server:
                opened = await start(server, spec, "initial")
                async with self._talk(server, spec, opened, deadline) as conversation:
                    yield conversation
            return
        loop = asyncio.get_running_loop()
        fork_at = (loop.time() + deadline) / 2
        async with (
            self._registry.hold(spec.role, spec.subject, lambda: fork_at - loop.time()) as lease,
            self._leased(self._kept, deadline) as server,
        ):
            record = lease.record
            wanted = wanted_record(spec, server, self._home_id)
            opened = await self._open(server, spec, lease, wanted)
            async with self._talk(server, spec, opened, deadline) as conversation:
                try:
                    yield conversation
                finally:
                    if lease.held:
                        goes_on = opened.reason == "resumed" or opened.reason.startswith("forked:")
                        base = record if record is not None and goes_on else wanted
                        await _remember(lease, base, conversation)

    async def _open(self, server: AppServer, spec: ConversationSpec, lease: Lease, wanted: ThreadRecord) -> Opened:
        record = lease.record
        why = why_fresh(record, wanted, self._config)
        if spec.opening == "fresh" and why is None:
            why = "retry"
        if not lease.held:
            return await fork_or_start(server, spec, record, why, "busy")
        if spec.opening == "fork":
            return await fork_or_start(server, spec, record, why, "retry")
        return await resume_or_start(server, spec, record, why)

    @property
    def _home_id(self) -> str:
        return self._home.id if self._home else ""

    @asynccontextmanager
    async def _leased(self, pool: Pool, deadline: float) -> AsyncIterator[AppServer]:
        async with pool.lease(deadline) as server:
            try:
                yield server
            except RpcTimeout:
                pool.suspect(server)
                raise

    @asynccontextmanager
    async def _talk(
        self, server: AppServer, spec: ConversationSpec, opened: Opened, deadline: float
    ) -> AsyncIterator[Conversation]:
        reopen = partial(resume, server, spec, opened.thread_id) if opened.reason == "resumed" else None
        conversation = Conversation(server, spec, opened, deadline, self._config, reopen)
        self._active.add(conversation)
        try:
            yield conversation
        finally:
            self._active.discard(conversation)
            if not self._active:
                self._idle.set()
            # The process unloads a thread nobody is subscribed to a second later.
            server.client.post("thread/unsubscribe", {"threadId": opened.thread_id})
            if conversation.last_failure is not None and conversation.last_failure.kind == "rpc_timeout":
                self._pool_of(server).suspect(server)

    def _pool_of(self, server: AppServer) -> Pool:
        pool = self._kept if server.kind == "kept" else self._ephemeral
        assert pool is not None
        return pool

    async def _wait_idle(self, seconds: float) -> None:
        if not self._active or seconds <= 0:
            return
        self._idle.clear()
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            log.warning("%d conversations are still open", len(self._active))


async def _remember(lease: Lease, base: ThreadRecord, conversation: Conversation) -> None:
    """Writes what the conversation did to the registry. A thread without a turn is not on disk: not recorded."""
    if conversation.turns == 0:
        return
    failed = conversation.last_failure
    try:
        if failed is not None and failed.kind == "context_window":
            await lease.forget()  # the next attempt starts afresh, with room
            return
        done = {
            "thread_id": conversation.thread_id,
            "turns": base.turns + conversation.turns,
            "last_turn_id": conversation.last_turn_id or base.last_turn_id,
            "updated_at": time.time(),
            "reason": conversation.reason,
        }
        if not await lease.save(base.model_copy(update=done)):
            log.warning("the lease %s was lost; thread %s is not recorded", lease.key, conversation.thread_id)
    except RedisDown as error:
        log.warning("thread %s is not recorded: %s", conversation.thread_id, error)
