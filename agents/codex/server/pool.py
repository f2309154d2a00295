"""Pool of processes of one kind: started on the first lease, replaced when worn, ended without leaving an orphan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from chordesk.agents.codex.config import RuntimeConfig
from chordesk.agents.codex.server.catalog import Launch
from chordesk.agents.codex.server.process import AppServer, Kind
from chordesk.models.errors import ProcessDied, RpcTimeout

log = structlog.get_logger(__name__)


# Kept threads go through one writer of the process, which eight turns at once keep busy.
SHARE = 8


class AppServerPool:
    """Up to `size` serving processes, the least busy first, and any number that drain: they take no new lease and
    end with their last turn. A further process starts when every serving one has SHARE turns in flight."""

    def __init__(self, kind: Kind, launch: Launch, home: Path, config: RuntimeConfig, size: int = 1) -> None:
        self.kind: Kind = kind
        self._launch, self._home, self._config, self._size = launch, home, config, size
        self._slots = asyncio.Semaphore(config.turns)
        self._serving: list[AppServer] = []
        self._starting: asyncio.Task[None] | None = None
        self._draining: set[AppServer] = set()
        self._jobs: set[asyncio.Task[Any]] = set()
        self._health: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def processes(self) -> list[AppServer]:
        return [*self._serving, *self._draining]

    @asynccontextmanager
    async def lease(self, deadline: float) -> AsyncIterator[AppServer]:
        """Lease a slot in a live process until the block ends. deadline: loop time for getting it.

        Raises RpcTimeout when no slot came free in time, ProcessDied when the pool is closing, and the errors
        of a process's start.
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise RpcTimeout(f"no free turn in the {self.kind} app-server before the deadline") from None
        try:
            server = await self._current()
            server.in_flight += 1
            try:
                yield server
            finally:
                server.in_flight -= 1
                server.turns += 1
                self._after(server)
        finally:
            self._slots.release()

    def suspect(self, server: AppServer) -> None:
        """Take no new turn to a process that let a request time out, and kill it unless it answers."""
        if not server.retired:
            self._retire(server, "a request timed out")
            self._spawn(self._check(server))

    async def close(self) -> None:
        """End every process. Running turns fail with ProcessDied."""
        self._closed = True
        for task in [self._health, self._starting]:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await asyncio.gather(*(server.stop() for server in self.processes), return_exceptions=True)
        await asyncio.gather(*self._jobs, return_exceptions=True)
        self._serving.clear()
        self._draining.clear()

    async def _current(self) -> AppServer:
        """Return the least busy process; all callers during the start of the first one share that start."""
        while True:
            if self._closed:
                raise ProcessDied("the Codex runtime is closing")
            for dead in [one for one in self._serving if not one.alive]:
                self._retire(dead, "it died")
            server = min(self._serving, key=lambda one: one.in_flight, default=None)
            wanted = server is None or (server.in_flight >= SHARE and len(self._serving) < self._size)
            if wanted and self._starting is None:
                # One at a time: two that start at once in a fresh home die of its database.
                self._starting = asyncio.create_task(self._start())
                self._starting.add_done_callback(self._started)
            if server is not None:
                return server
            await self._first()

    async def _first(self) -> None:
        """Wait for the process that is being started. Raises the errors of its start."""
        assert self._starting is not None
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._closed:
                raise ProcessDied("the Codex runtime is closing") from None
            raise

    async def _start(self) -> None:
        server = AppServer(self.kind, self._launch, self._home, self._config)
        try:
            await server.start()
        except BaseException:
            await server.stop(0)
            raise
        finally:
            self._starting = None
        self._serving.append(server)
        if self._health is None:
            self._health = asyncio.create_task(self._watch_health())

    def _started(self, starting: asyncio.Task[None]) -> None:
        """Log why a process did not start: beside a serving one no caller waits for it."""
        if not starting.cancelled() and (error := starting.exception()) is not None:
            log.warning("app_server.not_started", kind=self.kind, error=str(error))

    def _after(self, server: AppServer) -> None:
        """Replace or end the process after a lease, when it is worn, dead or drained."""
        if not server.retired:
            if not server.alive:
                self._retire(server, "it died")
            elif server.turns >= self._config.recycle_turns:
                self._retire(server, f"{server.turns} turns")
        self._stop_if_drained(server)

    def _retire(self, server: AppServer, why: str) -> None:
        if server.retired:
            return
        log.info("app_server.replaced", pid=server.pid, kind=self.kind, why=why)
        server.retired = True
        self._draining.add(server)
        if server in self._serving:
            self._serving.remove(server)
        self._stop_if_drained(server)

    def _stop_if_drained(self, server: AppServer) -> None:
        if server.retired and server.in_flight == 0 and server in self._draining and not self._closed:
            self._draining.discard(server)
            self._spawn(server.stop())

    async def _check(self, server: AppServer) -> None:
        if not await server.healthy():
            self._retire(server, "it does not answer")
            await server.client.kill()

    async def _watch_health(self) -> None:
        while True:
            await asyncio.sleep(self._config.health_seconds)
            await asyncio.gather(*(self._check_one(server) for server in self.processes))

    async def _check_one(self, server: AppServer) -> None:
        rss = server.rss_mb()
        if rss > self._config.recycle_rss_mb and not server.retired:
            self._retire(server, f"{rss:.0f} MiB resident")
        else:
            await self._check(server)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
