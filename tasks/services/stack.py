"""The stack: starts the programs of a plan in order, watches them, and ends all of them together."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from urllib.parse import urlsplit

import structlog

from models import running
from models.errors import DeskError, ServiceError
from tasks.services import census, folders, redis, signals
from tasks.services.census import Census, Member
from tasks.services.plan import Plan
from tasks.services.programs import Program
from tasks.services.supervision import Process, Supervisor, log_file

log = structlog.get_logger(__name__)

READY_SECONDS = 45.0
STOP_SECONDS = 8.0  # supervisord's own stops take at most 4 s (desk) and 3 s (services)
SWEEP_SECONDS = 0.7
FAILED = ("FATAL", "BACKOFF", "EXITED")
DOWN = ("FATAL", "EXITED", "STOPPED", "UNKNOWN")
LOG_LINES = 15


class Stack:
    """A running plan. Use it as a context manager, from the main thread.

    before_desk runs when the services answer and no worker has started: the place for migrations.
    check_nodes(nodes) raises a DeskError while one of these Celery nodes does not answer yet.
    """

    def __init__(
        self,
        plan: Plan,
        before_desk: Callable[[], None] | None = None,
        check_nodes: Callable[[frozenset[str]], None] | None = None,
    ) -> None:
        self.plan = plan
        self._before_desk = before_desk
        self._check_nodes = check_nodes
        self._supervisor = Supervisor(plan.folders)
        self._census = Census(plan.folders.processes_file)
        self._held = ExitStack()
        self._services_file = running.services_path(plan.folders.home)
        self._first_pid: dict[str, int] = {}
        self.left_over: list[Member] = []  # of an earlier run, ended at the start

    def __enter__(self) -> Stack:
        self._held.enter_context(folders.only_one(self.plan.folders))
        try:
            # What a crash left would count from now on, for the lock is held again.
            self._services_file.unlink(missing_ok=True)
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def supervisor_pid(self) -> int:
        return self._supervisor.pid

    def _start(self) -> None:
        # Two servers on one append-only file would spoil it: what a crash left running goes first.
        self.left_over = census.end(self._census.load(), grace_seconds=3.0)
        self._supervisor.start(self.plan.programs, self.plan.environ, self.plan.cwd)
        self._run(self.plan.services)
        self._services_ready()
        if self._before_desk:
            self._before_desk()
        running.write(self.plan.folders.home, self.plan.announced)
        self._run(self.plan.desk)
        self._all_running()
        nodes = frozenset(program.node for program in self.plan.desk if program.node)
        check = self._check_nodes
        if nodes and check:
            self._until(lambda: check(nodes), "the workers")

    def _run(self, programs: tuple[Program, ...]) -> None:
        for program in programs:
            self._supervisor.run(program)

    def _services_ready(self) -> None:
        address = self.plan.urls.get("redis_url")
        if address:
            self._until(lambda: redis.wait_ready(address, 1.0), "Redis")
        rulebook = self.plan.urls.get("rulebook_url")
        if rulebook:
            self._until(lambda: _answers(f"{rulebook}/models"), "the rulebook model")

    def _until(self, check: Callable[[], None], what: str) -> None:
        """Repeats a check until it passes; a program that gave up ends the wait at once."""
        until = time.monotonic() + READY_SECONDS
        while True:
            try:
                check()
                return
            except (DeskError, OSError, http.client.HTTPException) as error:
                self._raise_if_down()
                if time.monotonic() > until:
                    raise ServiceError(f"{what} did not become ready in {READY_SECONDS:.0f} s: {error}") from None
            time.sleep(0.1)

    def _all_running(self) -> None:
        until = time.monotonic() + READY_SECONDS
        while True:
            waiting = [each.name for each in self.poll() if each.state != "RUNNING"]
            if not waiting:
                return
            self._raise_if_down()
            if time.monotonic() > until:
                raise ServiceError(f"not running after {READY_SECONDS:.0f} s: {', '.join(waiting)}")
            time.sleep(0.2)

    def _raise_if_down(self) -> None:
        """During the start a program has one try: one that ended or was started again is told with its log."""
        for each in self.poll():
            first = self._first_pid.setdefault(each.name, each.pid) if each.pid else 0
            if each.state in FAILED or (each.pid and each.pid != first):
                raise ServiceError(
                    f"{each.name} does not start: {each.message}\n{self.tail(each.name)}",
                    remedy=f"the whole log is {log_file(each.name, self.plan.folders)}",
                )

    def poll(self) -> list[Process]:
        """The state of every program; also remembers each process. Raises ServiceError when supervisord is gone."""
        try:
            processes = self._supervisor.processes()
        except ServiceError:
            if self._supervisor.alive(settle_seconds=1.0):
                raise
            raise ServiceError("supervisord has ended; the desk's processes are being stopped") from None
        self._census.take(self._supervisor.pid)
        return processes

    def revive(self) -> list[Process]:
        """Starts again what supervisord gave up on; returns those."""
        by_name = {program.name: program for program in self.plan.programs}
        dead = [each for each in self.poll() if each.state in DOWN]
        for each in dead:
            log.warning("service.restarted", name=each.name, state=each.state, message=each.message)
            self._supervisor.run(by_name[each.name])
        return dead

    def members(self) -> list[Member]:
        """The living processes of the stack, supervisord first."""
        return self._census.take(self._supervisor.pid)

    def tail(self, name: str) -> str:
        """The last lines of a program's log."""
        try:
            text = log_file(name, self.plan.folders).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join(text.splitlines()[-LOG_LINES:])

    def stop(self) -> None:
        """Ends everything within 10 s, supervisord alive or not; safe to call twice."""
        with signals.ignored():
            if self._supervisor.alive():
                self._census.take(self._supervisor.pid)
            self._supervisor.stop(STOP_SECONDS)
            census.end(self._census.living(), SWEEP_SECONDS)
            self._census.forget()
            self._services_file.unlink(missing_ok=True)
            folders.remove_sockets(self.plan.folders)
            self._held.close()


def _answers(url: str) -> None:
    """Raises OSError, HTTPException or ServiceError unless GET of this URL answers 200."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=2.0)
    try:
        connection.request("GET", parts.path)
        status = connection.getresponse().status
    finally:
        connection.close()
    if status != 200:
        raise ServiceError(f"{url} answers {status}")
