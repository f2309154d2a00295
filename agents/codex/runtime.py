"""The Codex runtime of one worker process: two pools of app-servers, and the conversations in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import redis.asyncio

from chordesk.agents.codex.conversation import Around, CodexConversation, Recorder, ThreadRecorder, UnregisteredRecorder
from chordesk.agents.codex.launch import RuntimeConfig, find_binary, prepare
from chordesk.agents.codex.registry import ThreadRegistry
from chordesk.agents.codex.rollouts import RolloutFiles, ThreadVault
from chordesk.agents.codex.servers import AppServer, AppServerPool, Home, Kind, claim_home
from chordesk.agents.codex.threads import (
    OpenedThread,
    ThreadPlace,
    fork_kept,
    open_kept,
    start,
    unsubscribe,
    wanted_record,
)
from chordesk.agents.runtime import ActiveRuntime, Asker, ConversationSpec, Observer, ProcessStatus, ThreadRecord
from chordesk.models.errors import CodexError, RedisDown, RpcTimeout, UsageError

if TYPE_CHECKING:
    from chordesk.agents.gateway.service import Gateway

INTERRUPTED_SECONDS = 9.0  # an interrupted turn ends within this, or its process is killed


class CodexRuntime(ActiveRuntime):
    """Implements agents.runtime.Runtime, one a worker process; every method belongs to the loop it was started on.

    registry: a redis.asyncio client, needed for kept threads alone and not closed here. Nothing runs before start(),
    and no app-server before the first conversation. observer records the conversations' events. asker passes a model's
    requests on to a person; without one all are declined. vault has the copies of kept threads; without one they stay
    in this home.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        registry: redis.asyncio.Redis | None = None,
        *,
        observer: Observer | None = None,
        asker: Asker | None = None,
        vault: ThreadVault | None = None,
    ) -> None:
        self._config, self._vault = config, vault
        self._around = Around(config, observer, asker)
        self._redis = registry
        self._home: Home | None = None
        self._files: RolloutFiles | None = None
        self._pools: dict[Kind, AppServerPool] = {}
        self._preparing = asyncio.Lock()
        super().__init__("Codex runtime", INTERRUPTED_SECONDS)

    async def start(self) -> None:
        """Find the binary, write the catalog and claim a home. Raises BinaryMissing, LoginMissing, CodexError."""
        config = self._config
        find_binary(config.binary)
        self._home = claim_home(config.home, config.worker)
        key = config.provider_key
        self._files = RolloutFiles(self._home, self._vault, [key] if key else ())
        if config.gated:
            self._around = replace(self._around, gateway=await _gateway(config))
        if config.facts is None:
            await self._prepare(self._home)

    async def _prepare(self, home: Home) -> None:
        """Make the pools, once."""
        async with self._preparing:
            if self._pools:
                return
            gateway = self._around.gateway
            launch = await prepare(self._config, gateway.url if gateway is not None else None)
            sizes: dict[Kind, int] = {"kept": self._config.kept_processes, "ephemeral": 1}
            for kind, size in sizes.items():
                self._pools[kind] = AppServerPool(kind, launch, home.of(kind), self._config, size)

    async def close(self, grace_seconds: float) -> None:
        await super().close(grace_seconds)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        if self._around.gateway is not None:
            await self._around.gateway.close()
        if self._files is not None:
            self._files.close()
        if self._home is not None:
            self._home.release()
            self._home = None

    def status(self) -> list[ProcessStatus]:
        return [
            ProcessStatus(one.kind, one.pid, one.age, one.turns, one.in_flight, one.rss_mb())
            for pool in self._pools.values()
            for one in pool.processes
        ]

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[CodexConversation]:
        """Open a thread for (role, subject), kept or ephemeral, with a turn slot until the block ends.

        deadline: loop.time() by which everything in the block has to be over. A busy kept thread is awaited during the
        first half of the time until then; in the second half a fork runs instead. Raises CodexError, RedisDown; those
        with `retryable` may be tried again.
        """
        home, files = await self._started()
        if not spec.keep:
            async with self._leased("ephemeral", deadline) as server:
                opened = await start(server, spec, "initial")
                async with self._converse(server, spec, opened, deadline, None) as conversation:
                    yield conversation
            return
        loop = asyncio.get_running_loop()
        fork_at = (loop.time() + deadline) / 2
        async with (
            self._registry().hold(spec.role, spec.subject, lambda: fork_at - loop.time()) as lease,
            self._leased("kept", deadline) as server,
        ):
            place = ThreadPlace(server, spec, lease, wanted_record(spec, server, home.id, home.owner), files)
            kept = self._pools["kept"]
            opened = await open_kept(place, self._config, lambda: kept.processes)
            recorder = (ThreadRecorder if lease.held else UnregisteredRecorder)(place, opened)
            async with self._converse(server, spec, opened, deadline, recorder) as conversation:
                try:
                    yield conversation
                finally:
                    await recorder.close(conversation)

    async def fork(
        self, spec: ConversationSpec, source: ThreadRecord, before_turn: str | None, deadline: float
    ) -> ThreadRecord:
        """Fork a thread before one of its turns, or with all of its history; record the fork under the spec's role and
        subject, which must have no record yet. The source stays as it is. Raises CodexError, RedisDown, UsageError."""
        home, files = await self._started()
        async with (
            self._registry().hold(spec.role, spec.subject, lambda: 0.0) as lease,
            self._leased("kept", deadline) as server,
        ):
            if not lease.held or lease.record is not None:
                raise UsageError(f"there is a thread {spec.role}/{spec.subject} already")
            wanted = wanted_record(spec, server, home.id, home.owner)
            return await fork_kept(ThreadPlace(server, spec, lease, wanted, files), source, before_turn)

    @asynccontextmanager
    async def _leased(self, kind: Kind, deadline: float) -> AsyncIterator[AppServer]:
        pool = self._pools[kind]
        async with pool.lease(deadline) as server:
            try:
                yield server
            except RpcTimeout:
                pool.suspect(server)
                raise

    @asynccontextmanager
    async def _converse(
        self,
        server: AppServer,
        spec: ConversationSpec,
        opened: OpenedThread,
        deadline: float,
        recorder: Recorder | None,
    ) -> AsyncIterator[CodexConversation]:
        conversation = CodexConversation(server, spec, opened, deadline, self._around, recorder)
        with self._active.holding(conversation):
            conversation.listener.opened()
            try:
                yield conversation
            finally:
                conversation.listener.closed()
                unsubscribe(server, opened.thread_id)
                if conversation.last_failure is not None and conversation.last_failure.kind == "rpc_timeout":
                    self._pools[server.kind].suspect(server)

    def _registry(self) -> ThreadRegistry:
        if self._redis is None:
            raise RedisDown("a kept thread needs a Redis, and none is configured", remedy="set DESK_REDIS_URL")
        return ThreadRegistry(self._redis, self._config.lease_seconds, self._vault)

    async def _started(self) -> tuple[Home, RolloutFiles]:
        self._require_open()
        if self._home is None or self._files is None:
            raise CodexError("the Codex runtime was not started")
        await self._prepare(self._home)
        return self._home, self._files


async def _gateway(config: RuntimeConfig) -> Gateway:
    from chordesk.agents.gateway.service import Gateway, Upstream

    assert config.provider_url is not None
    gateway = Gateway(
        Upstream(
            config.provider_url,
            config.provider_key,
            chat=config.facts is not None,
            facts=config.facts,
            ca_file=config.ca_file,
        )
    )
    await gateway.start()
    return gateway
