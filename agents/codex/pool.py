"""Processes of one kind: started on the first lease, replaced when worn, ended without leaving an orphan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agents.codex.catalog import Launch
from agents.codex.config import RuntimeConfig
from agents.codex.process import AppServer, Kind
from models.errors import ProcessDied, RpcTimeout

log = logging.getLogger(__name__)


class Pool:
    """One serving process and any number that drain: they take no new lease and end with their last turn."""

    def __init__(self, kind: Kind, launch: Launch, home: Path, config: RuntimeConfig) -> None:
        self.kind: Kind = kind
        self._launch, self._home, self._config = launch, home, config
        self._slots = asyncio.Semaphore(config.turns)
        self._serving: AppServer | None = None
        self._starting: asyncio.Task[AppServer] | None = None
        self._draining: set[AppServer] = set()
        self._jobs: set[asyncio.Task[Any]] = set()
        self._health: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def processes(self) -> list[AppServer]:
        return [*([self._serving] if self._serving else []), *self._draining]

    @asynccontextmanager
    async def lease(self, deadline: float) -> AsyncIterator[AppServer]:
        """A slot in a live process, until the block ends. deadline: loop time for getting it.

        Raises RpcTimeout when no slot came free in time, ProcessDied when the pool is closing, and whatever
        starting a process raises.
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
        """A request to the process timed out: no new turn goes there, and it is killed unless it answers."""
        if not server.retired:
            self._retire(server, "a request timed out")
            self._spawn(self._check(server))

    async def close(self) -> None:
        """Ends every process. Turns that still run fail with ProcessDied."""
        self._closed = True
        for task in [self._health, self._starting]:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await asyncio.gather(*(server.stop() for server in self.processes), return_exceptions=True)
        await asyncio.gather(*self._jobs, return_exceptions=True)
        self._serving = None
        self._draining.clear()

    async def _current(self) -> AppServer:
        """The serving process; all who ask while it starts share one start."""
        if self._closed:
            raise ProcessDied("the Codex runtime is closing")
        server = self._serving
        if server is not None and server.alive and not server.retired:
            return server
        if server is not None:
            self._retire(server, "it died")
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        try:
            return await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._closed:
                raise ProcessDied("the Codex runtime is closing") from None
            raise

    async def _start(self) -> AppServer:
        server = AppServer(self.kind, self._launch, self._home, self._config)
        try:
            await server.start()
        except BaseException:
            await server.stop(0)
            raise
        finally:
            self._starting = None
        self._serving = server
        if self._health is None:
            self._health = asyncio.create_task(self._watch_health())
        return server

    def _after(self, server: AppServer) -> None:
        """What the end of a lease may cause: the process is worn, dead, or drained."""
        if not server.retired:
            if not server.alive:
                self._retire(server, "it died")
            elif server.turns >= self._config.recycle_turns:
                self._retire(server, f"{server.turns} turns")
        self._stop_if_drained(server)

    def _retire(self, server: AppServer, why: str) -> None:
        if server.retired:
            return
        log.info("app-server %d (%s) is replaced: %s", server.pid, self.kind, why)
        server.retired = True
        self._draining.add(server)
        if self._serving is server:
            self._serving = None
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
            server = self._serving
            if server is None:
                continue
            rss = server.rss_mb()
            if rss > self._config.recycle_rss_mb:
                self._retire(server, f"{rss:.0f} MiB resident")
            else:
                await self._check(server)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
