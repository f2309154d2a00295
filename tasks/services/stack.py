"""The stack: starts the programs of a plan in order after its checks, monitors them, and ends all of them together."""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from chordesk.models import features, home
from chordesk.models.database import soundness, store
from chordesk.models.database.blobs import FolderBlobs
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, ServiceError, UsageError
from chordesk.models.exchanges import HOME
from chordesk.models.settings import Settings, running_desk
from chordesk.models.shortages import require_no_shortage
from chordesk.tasks import life, redis_clients, running_processes
from chordesk.tasks.bootstrap import require_provider, require_runtimes
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.reports.report_files import require_place
from chordesk.tasks.services import claims, redis_files, stop_signals, supervision
from chordesk.tasks.services.plan import Plan, Program, only_one, remove_sockets
from chordesk.tasks.services.supervision import Process, ProcessRecord, ProcessTable, StartWait, Supervisor, log_file
from chordesk.tasks.telemetry.emit import Telemetry
from chordesk.tasks.worker.app import node_name
from chordesk.tasks.worker.sockets import ask_all
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.market.factory import build_market, require_chains
from chordesk.tools.market.protocol import ClosedSet
from chordesk.tools.market.universe import NAMED, resolve_universe
from chordesk.tools.orders.audit import why_no_file

log = structlog.get_logger(__name__)

STOP_SECONDS = 8.0  # supervisord's own stops take at most 4 s (desk) and 3 s (services)
SWEEP_SECONDS = 0.7
POLL_SECONDS, POLL_GROWTH, POLL_MOST_SECONDS = 0.1, 1.03, 1.0  # a late start is not a reason to keep a core busy
FAILED = ("FATAL", "BACKOFF", "EXITED")
DOWN = ("FATAL", "EXITED", "STOPPED", "UNKNOWN")
AGAIN = "it ended, and supervisord started it again"
LOG_LINES = 15


def _log_line(line: str) -> None:
    """Log a line by the settings of the moment: `log.info` itself would keep those of the module's import."""
    log.info(line)


class Stack:
    """A running plan. Use it as a context manager, from the main thread.

    before_desk runs when the services answer and no worker has started: the place for migrations.
    late_workers returns the names of the workers that do not answer yet. notify takes a line about what is late.
    """

    def __init__(
        self,
        plan: Plan,
        before_desk: Callable[[], None] | None = None,
        late_workers: Callable[[], Sequence[str]] = tuple,
        notify: Callable[[str], None] = _log_line,
    ) -> None:
        self.plan = plan
        self._before_desk = before_desk
        self._late_workers, self._notify = late_workers, notify
        self._supervisor = Supervisor(plan.folders)
        self._process_table = ProcessTable(plan.folders.processes_file)
        self._held = ExitStack()
        self._services_file = running_desk.services_path(plan.folders.home)
        self._first_pid: dict[str, int] = {}
        self._log_begins: dict[str, int] = {}  # bytes that are of an earlier start
        self._polled: list[Process] = []
        self._up = False  # all programs have started, and none is to end
        self.left_over: list[ProcessRecord] = []  # of an earlier run, ended at the start
        self.identity: home.Identity | None = None  # of the data folder, while the stack runs

    def __enter__(self) -> Stack:
        self._held.enter_context(only_one(self.plan.folders))
        try:
            # A crash may have left the file, which would count from now on: the lock is held again.
            self._services_file.unlink(missing_ok=True)
            self.identity = home.claim(self.plan.folders.home)
            home.keep(self.plan.folders.home)
            alone = claims.held(self.identity, self.plan.settings, self.plan.environ, trades=bool(self.plan.desk))
            self._held.enter_context(alone)
            self._live()
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _live(self) -> None:
        """Begin the life of a `desk up`; services that run for a check are none."""
        if self.plan.desk:
            life.forget(self.plan.folders.home)
            own = life.begin(self.plan.folders.home, life.UP, life.UP)
            own.looks_after(self._parts)
            if not any(each.name == "beat" for each in self.plan.desk):
                own.leaves_out({"beat": "this desk was started without it (`desk up --no-beat`)"})

    def _parts(self) -> list[life.Part]:
        """Return the programs; those that do not run only once all have started, and while none is to end."""
        beats = {each.name for each in self.plan.desk if each.name != "flower"}
        shown = [each for each in self._polled if self._up or each.pid]
        return [
            life.Part(each.name, each.name.partition("-")[0], each.pid, each.name in beats, message=each.message)
            for each in shown
        ]

    def _start(self) -> None:
        # Two servers on one append-only file would corrupt it, so processes left by a crash are ended first.
        self.left_over = supervision.end(self._process_table.load(), grace_seconds=3.0)
        environ = {**self.plan.environ, home.VARIABLE: self.identity.id if self.identity is not None else ""}
        self._supervisor.start(self.plan.programs, environ, self.plan.cwd, supervision.START_SECONDS)
        self._run(self.plan.services)
        self._services_ready()
        if self._before_desk:
            self._before_desk()
        running_desk.write(self.plan.folders.home, self.plan.announced)
        self._run(self.plan.desk)
        self._until_none(self._not_running)
        self._until_none(self._late_workers)
        self._up = True

    def _run(self, programs: tuple[Program, ...]) -> None:
        for program in programs:
            self._log_begins[program.name] = _size(log_file(program.name, self.plan.folders))
            self._supervisor.run(program)

    def _services_ready(self) -> None:
        if address := self.plan.urls.get("redis_url"):
            self._redis_ready(address)
        if rulebook := self.plan.urls.get("rulebook_url"):
            self._until_none(lambda: _failing("rulebook", lambda: _answers(f"{rulebook}/models")))

    def _redis_ready(self, address: str) -> None:
        """Where the server ends over its own damaged file, set that aside and start once more."""

        def answers() -> list[str]:
            return _failing("redis", lambda: redis_clients.wait_ready(address, 1.0))

        try:
            self._until_none(answers)
        except ServiceError:
            if (why := redis_files.why_unreadable(self.tail("redis"))) is None:
                raise
            server = next(program for program in self.plan.services if program.name == "redis")
            self._supervisor.end(server)
            aside = redis_files.set_aside(self.plan.folders.redis)
            self._notify(
                f"Redis' own file is damaged ({why}): it is set aside in {aside}, and Redis starts empty; what waits "
                "is sent again from the database"
            )
            self._first_pid.pop("redis", None)
            self._run((server,))
            self._until_none(answers)

    def _until_none(self, late: Callable[[], Sequence[str]]) -> None:
        """Raises ServiceError when a program ended, took too long or came to a standstill."""
        wait = StartWait(self.plan, self._notify)
        pause = POLL_SECONDS
        while names := late():
            wait.check(names, [each.pid for each in self._none_down() if each.name in names])
            time.sleep(pause)
            pause = min(pause * POLL_GROWTH, POLL_MOST_SECONDS)

    def _not_running(self) -> list[str]:
        return [each.name for each in self.poll() if each.state != "RUNNING"]

    def _none_down(self) -> list[Process]:
        found = self.poll()
        for each in found:
            first = self._first_pid.setdefault(each.name, each.pid) if each.pid else 0
            if each.state in FAILED or (each.pid and each.pid != first):
                why = each.message if each.state in FAILED else AGAIN
                raise ServiceError(
                    f"{each.name} does not start: {why}\n{self.tail(each.name)}",
                    remedy=f"the whole log is {log_file(each.name, self.plan.folders)}",
                )
        return found

    def supervised(self) -> bool:
        """Return whether supervisord runs, if it answers or not."""
        return self._supervisor.alive(settle_seconds=1.0)

    def poll(self) -> list[Process]:
        life.beat()
        try:
            seconds = supervision.CALL_SECONDS if self._up else supervision.START_CALL_SECONDS
            self._polled = processes = self._supervisor.processes(seconds)
        except ServiceError:
            life.beat()
            if self.supervised():
                raise
            raise ServiceError("supervisord has ended; the desk's processes are being stopped") from None
        self._process_table.take(self._supervisor.pid)
        return processes

    def revive(self) -> list[Process]:
        by_name = {program.name: program for program in self.plan.programs}
        dead = [each for each in self.poll() if each.state in DOWN]
        for each in dead:
            log.warning("service.restarted", name=each.name, state=each.state, message=each.message)
            self._supervisor.run(by_name[each.name])
        return dead

    def members(self) -> list[ProcessRecord]:
        return self._process_table.take(self._supervisor.pid)

    def tail(self, name: str) -> str:
        path = log_file(name, self.plan.folders)
        try:
            written = path.read_bytes()
        except OSError as error:
            return f"(no log: {error})"
        begin = self._log_begins.get(name, 0)
        lines = written[begin if len(written) >= begin else 0 :].decode(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:]) or "(it wrote nothing)"

    def stop(self) -> None:
        """End everything within 10 s, even if supervisord has died; safe to call twice."""
        self._up = False
        with stop_signals.ignored():
            if self._supervisor.alive():
                self._process_table.take(self._supervisor.pid)
            self._supervisor.stop(STOP_SECONDS)
            supervision.end(self._process_table.living(), SWEEP_SECONDS)
            there = home.why_away(self.plan.folders.home) is None  # else these are files of another folder, or of none
            if there:
                if not self._process_table.living():  # else the next start ends them
                    self._process_table.forget()
                self._services_file.unlink(missing_ok=True)
            remove_sockets(self.plan.folders)
            if self.plan.desk:
                life.end()
            if self.plan.desk and there:
                life.forget(self.plan.folders.home)
                store.seal(self.plan.settings.database)
            self._held.close()
            home.forget()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _failing(name: str, check: Callable[[], None]) -> list[str]:
    try:
        check()
    except (DeskError, OSError, http.client.HTTPException):
        return [name]
    return []


def _answers(url: str) -> None:
    """Raise OSError, HTTPException or ServiceError unless GET of this URL answers 200."""
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=2.0)) as connection:
        connection.request("GET", parts.path)
        status = connection.getresponse().status
    if status != 200:
        raise ServiceError(f"{url} answers {status}")


REDIS_SECONDS = 5.0


def desk_stack(plan: Plan, notify: Callable[[str], None]) -> Stack:
    """Enter it to start; its exit stops all. Raises DeskError when no worker could work. notify: takes a line."""
    require_able(plan.settings)

    def late() -> list[str]:
        well = {health.node for health in ask_all(plan.settings.home) if health.well}
        return [each.name for each in plan.desk if each.node is not None and node_name(each.node) not in well]

    def migrate() -> None:
        # Ours answers already; one that the user named may be down, and workers would wait for it for ever.
        redis_clients.wait_ready(redis_url(plan.settings), REDIS_SECONDS)
        if (warning := redis_clients.require_fit(redis_url(plan.settings))) is not None:
            notify(warning)
        store.upgrade(plan.settings.database, tell=notify)
        for each in features.unready().values():
            notify(f"{each}; {each.remedy}")
        running_processes.require_own(plan.settings)

    return Stack(plan, before_desk=migrate, late_workers=late, notify=notify)


def require_able(settings: Settings) -> None:
    """Raise the DeskError that every worker would fail with: SettingError for telemetry, the places of blobs and of
    reports, and the roles, SettingError or NotConfigured for market and broker, UsageError for the universe,
    BinaryMissing, LoginMissing or CodexError for the model and its server, UsageError for a home without room; and what
    features need."""
    require_no_shortage(settings)
    soundness.require(settings)  # before anything is written to the database
    if (no_log := why_no_file(settings)) is not None:
        raise UsageError(no_log, remedy="orders need their record; then start the desk")
    Telemetry(settings, lambda: "up").check()
    if settings.blob_url is not None:
        FolderBlobs(settings.blob_url)
    if settings.report_url is not None:
        require_place(settings.report_url)
    market = build_market(settings)
    # A named one may be asked for far away; at another exchange it is told at once that there is none.
    if isinstance(market, ClosedSet) or settings.universe.lower() not in NAMED or settings.exchange != HOME:
        resolve_universe(settings.universe, market)
    with closing(Store(settings.database)) as books:
        build_broker(settings, market, books)
    require_chains(settings, os.environ)
    require_runtimes(settings)
    require_provider(settings)
    for feature, checks in features.parts("preflight", kind=Callable):
        for check in checks:
            features.call(feature, check, settings)
