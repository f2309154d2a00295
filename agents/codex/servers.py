"""App-server processes: pools of them, one process with the turns that run in it, and its home."""

from __future__ import annotations

import asyncio
import datetime as dt
import fcntl
import gc
import itertools
import os
import shutil
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
import structlog

from chordesk.agents.codex.launch import Launch, RuntimeConfig, link_login
from chordesk.agents.codex.protocol import ApprovalRouter, Client, Params, declined
from chordesk.agents.codex.turns import LIFE_SIGNS, NotificationListener, TurnWatch
from chordesk.agents.providers.liveness import Liveness
from chordesk.models import heap
from chordesk.models.errors import CodexError, ProcessDied, RpcTimeout
from chordesk.models.home import make_folder
from chordesk.models.quotas import Quota, quota_of
from chordesk.models.tables.columns import utcnow
from chordesk.tools.registry import ToolAnswer, Toolset, failed

# Folders of a worker's app-servers: one home per worker, claimed by a file lock.
#
# {home}/codex/{worker}/           lock, home_id
# {home}/codex/{worker}/kept       CODEX_HOME of thread-keeping processes; its sessions folder outlives them
# {home}/codex/{worker}/ephemeral  CODEX_HOME of the others
# {home}/codex/{worker}/aged       sessions that no process needs to see any more
# {home}/codex/{worker}/scratch    rollouts that are being forked

MOST_HOMES = 1000


@dataclass(frozen=True, slots=True)
class Home:
    """A claimed home. id is made once and stays with the folder, so that its threads are found again."""

    path: Path
    id: str
    lock: int

    @property
    def owner(self) -> str:
        """Return the worker's name and host, for the search for a thread by hand."""
        return f"{self.path.name}@{socket.gethostname()}"

    def of(self, kind: str) -> Path:
        return self.path / kind

    def release(self) -> None:
        os.close(self.lock)


def claim_home(root: Path, worker: str) -> Home:
    """Claim {root}/codex/{worker}, or {worker}-2, -3 and so on. Raises CodexError when none can be had."""
    for number in range(1, MOST_HOMES):
        path = root / "codex" / (worker if number == 1 else f"{worker}-{number}")
        if (lock := _lock(path)) is not None:
            return Home(path, _prepare(path), lock)
    raise CodexError(f"no free home for worker {worker} under {root / 'codex'}: {MOST_HOMES - 1} are taken")


def set_aside(codex_home: Path, thread_hours: float, days: float, now: dt.datetime) -> int:
    """Move rollouts that are too old to be resumed out of the app-server's sessions, since it reads every one when it
    starts; delete those last written `days` ago. Return the number of moved files. thread_hours: hours without use
    after which a thread is not resumed. now: local time."""
    aged, too_old = codex_home.parent / "aged" / "sessions", now - dt.timedelta(hours=thread_hours, days=1)
    moved = 0
    for file in _unwritten(codex_home / "sessions", too_old):
        into = aged / file.parent.relative_to(codex_home / "sessions")
        make_folder(into)
        file.replace(into / file.name)
        moved += 1
    for file in _unwritten(aged, min(too_old, now - dt.timedelta(days=days))):
        file.unlink(missing_ok=True)
    for lock in (codex_home / "thread-writer-locks").glob("*.lock"):
        if not lock.name.startswith(".") and lock.stat().st_mtime < too_old.timestamp():
            lock.unlink(missing_ok=True)
    return moved


def _unwritten(sessions: Path, since: dt.datetime) -> list[Path]:
    """Files of days before a time that were not written since; remove those day folders that are empty."""
    found = []
    for folder in _days(sessions, since):
        files = list(folder.iterdir())
        if not files:
            folder.rmdir()
        found += [file for file in files if file.stat().st_mtime < since.timestamp()]
    return found


def _days(sessions: Path, before: dt.datetime) -> list[Path]:
    found = []
    for folder in sessions.glob("*/*/*"):
        try:
            day = dt.datetime(*(int(part) for part in folder.parts[-3:]))  # type: ignore[arg-type]
        except ValueError:
            continue
        if day + dt.timedelta(days=1) < before:
            found.append(folder)
    return found


def _lock(path: Path) -> int | None:
    """None when another process holds it. The lock ends with its holder."""
    try:
        make_folder(path)
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CodexError(f"the Codex home {path} is not writable: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _prepare(path: Path) -> str:
    for kind in ("kept", "ephemeral"):
        make_folder(path / kind, 0o700)
        shutil.rmtree(path / kind / "sqlite", ignore_errors=True)
    shutil.rmtree(path / "scratch", ignore_errors=True)
    marker = path / "home_id"
    if not marker.exists():
        marker.write_text(uuid.uuid4().hex, encoding="ascii")
    return marker.read_text(encoding="ascii").strip()


Kind = Literal["kept", "ephemeral"]
TOOL_CALL = "item/tool/call"
LIMITS_UPDATED = "account/rateLimits/updated"  # with each answer that has headers of a plan, a refusal too
READ_SECONDS = 10.0
OnQuota = Callable[[Quota], None]
STOP_SECONDS = 2.0
_numbers = itertools.count(1)

# Parts of an answer as they come: for readers that follow the desk live, at a cost.
DELTAS = frozenset({"item/agentMessage/delta", "item/reasoning/summaryTextDelta"})
# Every notification costs a write there and a parse here; a turn needs six of them: error, item/started,
# item/completed, thread/tokenUsage/updated, turn/started, turn/completed. item/started is 1% of an ephemeral turn.
OPT_OUT = (
    "thread/started", "thread/status/changed", "thread/readState/changed", "thread/archived", "thread/deleted",
    "thread/unarchived", "thread/closed", "thread/reverted", "thread/name/updated", "thread/attachment/updated",
    "thread/goal/updated", "thread/goal/cleared", "thread/prediction/updated", "thread/queue/changed",
    "thread/project/updated", "thread/environment/connected", "thread/environment/disconnected",
    "thread/settings/updated", "thread/compacted", "project/changed", "skills/changed",
    "item/agentMessage/delta", "item/plan/delta", "item/reasoning/summaryTextDelta",
    "item/reasoning/summaryPartAdded", "item/reasoning/textDelta", "item/mcpToolCall/progress",
    "item/commandExecution/outputDelta", "item/fileChange/outputDelta", "item/fileChange/patchUpdated",
    "turn/diff/updated", "turn/plan/updated", "turn/moderationMetadata", "hook/started", "hook/completed",
    "serverRequest/resolved", "account/updated", "app/list/updated",
    "remoteControl/status/changed", "mcpServer/startupStatus/updated", "fs/changed", "model/rerouted",
    "model/verification", "model/safetyBuffering/updated", "configWarning", "deprecationNotice", "warning",
    "guardianWarning",
)  # fmt: skip


class AppServer:
    """A running app-server. in_flight and turns are kept by the pool that owns it."""

    def __init__(
        self, kind: Kind, launch: Launch, home: Path, config: RuntimeConfig, on_quota: OnQuota | None = None
    ) -> None:
        self.quota: Quota | None = None
        self._on_quota = on_quota
        self.kind, self.home, self.work = kind, home, home / "work"
        self.launch = launch
        self.in_flight = 0
        self.turns = 0
        self.retired = False
        self._config = config
        self._sqlite = home / "sqlite" / str(next(_numbers))
        self._watches: dict[str, TurnWatch] = {}
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self.client = Client(
            launch.argv(self._sqlite), launch.environment(home), str(home),
            on_notification=self._on_notification, on_request=self._on_request, on_death=self._on_death,
            rpc_seconds=config.rpc_seconds, rpcs=config.rpcs,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.client.pid

    @property
    def alive(self) -> bool:
        return self.client.died is None

    @property
    def age(self) -> float:
        return self._loop.time() - self._started_at

    async def start(self) -> None:
        shutil.rmtree(self._sqlite, ignore_errors=True)
        make_folder(self._sqlite)
        make_folder(self.work)
        link_login(self._config, self.home)
        await asyncio.to_thread(self._set_aside)
        # Where no gateway sees the provider's stream, what the app-server passes on of it are the only signs of life.
        wanted = (DELTAS if self._config.deltas else frozenset()) | (frozenset() if self._config.gated else LIFE_SIGNS)
        await self.client.start([name for name in OPT_OUT if name not in wanted])
        log.info("app_server.started", pid=self.pid, kind=self.kind, home=str(self.home))

    def _set_aside(self) -> None:
        hours, days = self._config.most_thread_age_hours, self._config.rollout_days
        if moved := set_aside(self.home, hours, days, dt.datetime.now()):
            log.info("rollouts.moved_aside", count=moved, home=str(self.home))

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        await self.client.close(seconds)
        shutil.rmtree(self._sqlite, ignore_errors=True)
        shutil.rmtree(self.home / "log", ignore_errors=True)

    async def healthy(self) -> bool:
        try:
            await self.client.request("server/diagnostics", {})
        except CodexError as error:
            log.warning("app_server.unhealthy", pid=self.pid, kind=self.kind, error=str(error))
            return False
        return True

    def rss_mb(self) -> float:
        try:
            return float(psutil.Process(self.pid).memory_info().rss) / 2**20 if self.pid else 0.0
        except psutil.NoSuchProcess:
            return 0.0

    def watch(
        self, thread_id: str, tools: Toolset, router: ApprovalRouter, listener: NotificationListener, liveness: Liveness
    ) -> TurnWatch:
        """Route the thread's notifications and requests to a new watch. A thread runs one turn at a time."""
        if thread_id in self._watches:
            raise CodexError(f"thread {thread_id} already runs a turn")
        watch = TurnWatch(tools, router, listener, liveness, gated=self._config.gated, deltas=self._config.deltas)
        if self.client.died is not None:
            watch.fail(self.client.died)
        self._watches[thread_id] = watch
        return watch

    def unwatch(self, thread_id: str) -> None:
        if (watch := self._watches.pop(thread_id, None)) is not None:
            watch.end()

    def _on_notification(self, method: str, params: Params) -> None:
        if method == LIMITS_UPDATED:
            self.take_quota(params.get("rateLimits"))
        elif (watch := self._watches.get(params.get("threadId", ""))) is not None:
            watch.notify(method, params)

    def take_quota(self, told: Any) -> None:
        """Keep what the provider told of the account's plan, and pass it on where it has changed."""
        found = quota_of(told, self.quota, utcnow()) if isinstance(told, Mapping) else self.quota
        changed = found is not None and (self.quota is None or found.windows != self.quota.windows)
        self.quota = found
        if found is not None and changed and self._on_quota is not None:
            self._on_quota(found)

    async def plan_resets_at(self) -> dt.datetime | None:
        """Return when a plan that is used up begins anew; a login is asked where its answers did not say."""
        now = utcnow()
        if (known := self.quota.resets_at(now) if self.quota is not None else None) is not None or self._config.gated:
            return known
        with suppress(CodexError):
            self.take_quota((await self.client.request("account/rateLimits/read", {}, READ_SECONDS)).get("rateLimits"))
        return self.quota.resets_at(now) if self.quota is not None else None

    def _on_death(self, error: ProcessDied) -> None:
        for watch in self._watches.values():
            watch.fail(error)

    async def _on_request(self, method: str, params: Params) -> Params | None:
        watch = self._watches.get(params.get("threadId", ""))
        if method != TOOL_CALL:
            return await watch.decide(method, params, declined(method)) if watch is not None else declined(method)
        name = str(params["tool"])
        if watch is None:
            return _tool_answer(failed(name, "this turn is over"))
        call = _call_tool(watch, name, params.get("arguments"))
        late = _tool_answer(failed(name, "the turn ended before the tool answered"))
        return await watch.call_tool(params, call, late)


async def _call_tool(watch: TurnWatch, name: str, arguments: Any) -> Params:
    """Return a tool's answer. Any error becomes one, so that the turn continues; the toolset times the call out."""
    try:
        return _tool_answer(await watch.tools.call(name, arguments))
    except Exception as error:
        log.exception("tool.raised", tool=name)
        return _tool_answer(failed(name, f"{name} failed: {error}"))


def _tool_answer(answer: ToolAnswer) -> Params:
    items = [{"type": "inputText", "text": answer.text()}]
    if answer.image is not None:
        items.append({"type": "inputImage", "imageUrl": answer.image.data_url()})
    return {"success": answer.success, "contentItems": items}


log = structlog.get_logger(__name__)


def give_back(program: str) -> None:
    """Memory that glibc holds, and the pages of the app-server's file: 200 MB that count as the container's."""
    if sys.platform != "linux":
        return
    gc.collect()
    heap.trim()
    with suppress(OSError):
        descriptor = os.open(program, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


# Kept threads go through one writer of the process, which eight turns at once keep busy.
SHARE = 8


class AppServerPool:
    """Up to `size` serving processes, the least busy first, and any number that drain: they take no new lease and
    end with their last turn. A further process starts when every serving one has SHARE turns in flight. Where there was
    no turn for a while all end: they are a third of a worker's memory, and the next one starts within a second."""

    def __init__(
        self,
        kind: Kind,
        launch: Launch,
        home: Path,
        config: RuntimeConfig,
        size: int = 1,
        on_quota: OnQuota | None = None,
    ) -> None:
        self.kind: Kind = kind
        self._on_quota = on_quota
        self._launch, self._home, self._config, self._size = launch, home, config, size
        self._slots = asyncio.Semaphore(config.turns)
        self._serving: list[AppServer] = []
        self._starting: asyncio.Task[None] | None = None
        self._draining: set[AppServer] = set()
        self._jobs: set[asyncio.Task[Any]] = set()
        self._health: asyncio.Task[None] | None = None
        self._used_at = 0.0
        self._closed = False

    @property
    def processes(self) -> list[AppServer]:
        return [*self._serving, *self._draining]

    @asynccontextmanager
    async def lease(self, deadline: float) -> AsyncIterator[AppServer]:
        """Lease a slot in a live process until the block ends. deadline: loop time for getting it. Raises RpcTimeout
        when no slot came free in time, ProcessDied when the pool is closing, and the errors of a process's start."""
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
                self._used_at = asyncio.get_running_loop().time()
                self._after(server)
        finally:
            self._slots.release()

    def suspect(self, server: AppServer) -> None:
        """Take no new turn to a process that let a request time out, and kill it unless it answers."""
        if not server.retired:
            self._retire(server, "a request timed out")
            self._spawn(self._check(server))

    async def close(self) -> None:
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
        assert self._starting is not None
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._closed:
                raise ProcessDied("the Codex runtime is closing") from None
            raise

    async def _start(self) -> None:
        server = AppServer(self.kind, self._launch, self._home, self._config, self._on_quota)
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
        if not starting.cancelled() and (error := starting.exception()) is not None:
            log.warning("app_server.not_started", kind=self.kind, error=str(error))

    def _after(self, server: AppServer) -> None:
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
            await asyncio.to_thread(heap.trim)
            if self._serving and self._idle():
                for server in list(self._serving):
                    self._retire(server, f"no turn for {self._config.idle_seconds:g} s")
                await asyncio.gather(*self._jobs, return_exceptions=True)
                await asyncio.to_thread(give_back, self._launch.binary)

    def _idle(self) -> bool:
        now = asyncio.get_running_loop().time()
        return not any(one.in_flight for one in self.processes) and now - self._used_at >= self._config.idle_seconds

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
