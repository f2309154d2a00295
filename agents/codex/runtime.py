"""The Codex runtime of one worker process: two pools of app-servers, and the conversations in them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import redis.asyncio

from agents.codex.catalog import Launch, prepare
from agents.codex.config import RuntimeConfig
from agents.codex.conversation import Conversation
from agents.codex.forking import fork_kept
from agents.codex.gateway import resume, start, unsubscribe, wanted_record
from agents.codex.homes import Home, claim_home
from agents.codex.observer import Observer
from agents.codex.opening import open_kept
from agents.codex.pool import Pool
from agents.codex.process import AppServer
from agents.codex.recorder import AsideRecorder, ThreadRecorder
from agents.codex.reporter import Reporter
from agents.codex.rollout_files import RolloutFiles
from agents.codex.rollouts import Vault
from agents.codex.router import Asker
from agents.codex.spec import ConversationSpec, Opened
from agents.codex.threads import ThreadRecord, ThreadRegistry
from models.errors import CodexError, ProcessDied, RpcTimeout, UsageError

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
    start(), and no app-server before the first conversation. observer is told of everything that happens in the
    conversations; asker takes a model's requests to a person, and without one all are declined; vault has the copies
    of kept threads, and without one they stay in this home.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        registry: redis.asyncio.Redis,
        *,
        observer: Observer | None = None,
        asker: Asker | None = None,
        vault: Vault | None = None,
    ) -> None:
        self._config, self._vault = config, vault
        self._observer, self._asker = observer, asker
        self._registry = ThreadRegistry(registry, config.lease_seconds)
        self._home: Home | None = None
        self._files: RolloutFiles | None = None
        self._kept: Pool | None = None
        self._ephemeral: Pool | None = None
        self._active: set[Conversation] = set()
        self._idle = asyncio.Event()
        self._closing = False

    async def start(self) -> None:
        """Finds the binary, writes the catalog, claims a home. Raises BinaryMissing, LoginMissing, CodexError."""
        launch: Launch = await prepare(self._config)
        self._home = claim_home(self._config.home, self._config.worker)
        self._files = RolloutFiles(self._home, self._vault)
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
        if self._files is not None:
            self._files.close()
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
        if self._home is None or self._files is None or self._kept is None or self._ephemeral is None:
            raise CodexError("the Codex runtime was not started")
        if not spec.keep:
            async with self._leased(self._ephemeral, deadline) as server:
                opened = await start(server, spec, "initial")
                async with self._talk(server, spec, opened, deadline, None) as conversation:
                    yield conversation
            return
        loop = asyncio.get_running_loop()
        fork_at = (loop.time() + deadline) / 2
        async with (
            self._registry.hold(spec.role, spec.subject, lambda: fork_at - loop.time()) as lease,
            self._leased(self._kept, deadline) as server,
        ):
            wanted = wanted_record(spec, server, self._home.id, self._home.owner)
            kept, files = self._kept, self._files
            opened = await open_kept(server, spec, lease, wanted, self._config, files, lambda: kept.processes)
            recorder = (
                ThreadRecorder(lease, files, opened, wanted, lambda: server.alive)
                if lease.held
                else AsideRecorder(lease, files, opened, wanted)
            )
            async with self._talk(server, spec, opened, deadline, recorder) as conversation:
                try:
                    yield conversation
                finally:
                    await recorder.close(conversation)

    async def fork(
        self, spec: ConversationSpec, source: ThreadRecord, before_turn: str | None, deadline: float
    ) -> ThreadRecord:
        """A thread of its own with the source's history before one of its turns, or with all of it; recorded under the
        spec's role and subject, of which there must be no record yet. The source is left as it is.

        Raises CodexError, RedisDown, UsageError.
        """
        if self._home is None or self._files is None or self._kept is None:
            raise CodexError("the Codex runtime was not started")
        async with (
            self._registry.hold(spec.role, spec.subject, lambda: 0.0) as lease,
            self._leased(self._kept, deadline) as server,
        ):
            if not lease.held or lease.record is not None:
                raise UsageError(f"there is a thread {spec.role}/{spec.subject} already")
            wanted = wanted_record(spec, server, self._home.id, self._home.owner)
            return await fork_kept(server, spec, lease, wanted, self._files, source, before_turn)

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
        self,
        server: AppServer,
        spec: ConversationSpec,
        opened: Opened,
        deadline: float,
        recorder: ThreadRecorder | AsideRecorder | None,
    ) -> AsyncIterator[Conversation]:
        reopen = partial(resume, server, spec, opened.thread_id) if opened.reason == "resumed" else None
        reporter = Reporter(self._observer, spec, opened, self._config.worker) if self._observer is not None else None
        after = recorder.after_turn if recorder is not None else None
        conversation = Conversation(server, spec, opened, deadline, self._config, reopen, after, reporter, self._asker)
        self._active.add(conversation)
        if reporter is not None:
            reporter.opened()
        try:
            yield conversation
        finally:
            self._active.discard(conversation)
            if not self._active:
                self._idle.set()
            if reporter is not None:
                reporter.closed()
            unsubscribe(server, opened.thread_id)
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
