"""The stack: starts the programs of a plan in order, monitors them, and ends all of them together."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import structlog

from models.errors import DeskError, ServiceError
from models.settings import running
from tasks import redis_clients
from tasks.services import folders, process_table, signals
from tasks.services.plan import Plan
from tasks.services.process_table import ProcessRecord, ProcessTable
from tasks.services.programs import Program
from tasks.services.supervision import Process, Supervisor, log_file

log = structlog.get_logger(__name__)

READY_SECONDS = 180.0  # what the workers of a slow and busy machine need; a program that fails ends the wait at once
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
        self._process_table = ProcessTable(plan.folders.processes_file)
        self._held = ExitStack()
        self._services_file = running.services_path(plan.folders.home)
        self._first_pid: dict[str, int] = {}
        self.left_over: list[ProcessRecord] = []  # of an earlier run, ended at the start

    def __enter__(self) -> Stack:
        self._held.enter_context(folders.only_one(self.plan.folders))
        try:
            # A crash may have left the file, which would count from now on: the lock is held again.
            self._services_file.unlink(missing_ok=True)
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _start(self) -> None:
        # Two servers on one append-only file would corrupt it, so processes left by a crash are ended first.
        self.left_over = process_table.end(self._process_table.load(), grace_seconds=3.0)
        self._supervisor.start(self.plan.programs, self.plan.environ, self.plan.cwd)
        self._run(self.plan.services)
        self._services_ready()
        if self._before_desk:
            self._before_desk()
        running.write(self.plan.folders.home, self.plan.announced)
        self._run(self.plan.desk)
        self._until(self._all_running, "the programs")
        nodes = frozenset(program.node for program in self.plan.desk if program.node)
        if nodes and (check := self._check_nodes):
            self._until(lambda: check(nodes), "the workers")

    def _run(self, programs: tuple[Program, ...]) -> None:
        for program in programs:
            self._supervisor.run(program)

    def _services_ready(self) -> None:
        if address := self.plan.urls.get("redis_url"):
            self._until(lambda: redis_clients.wait_ready(address, 1.0), "Redis")
        if rulebook := self.plan.urls.get("rulebook_url"):
            self._until(lambda: _answers(f"{rulebook}/models"), "the rulebook model")

    def _until(self, check: Callable[[], None], what: str) -> None:
        """Repeat a check until it passes; end the wait at once when a program has given up."""
        until = time.monotonic() + READY_SECONDS
        while True:
            try:
                check()
                return
            except (DeskError, OSError, http.client.HTTPException) as error:
                self._raise_if_down()
                if time.monotonic() > until:
                    raise ServiceError(
                        f"{what} did not become ready in {READY_SECONDS:.0f} s: {error}",
                        remedy=f"the logs are in {self.plan.folders.logs}",
                    ) from None
            time.sleep(0.1)

    def _all_running(self) -> None:
        waiting = [each.name for each in self.poll() if each.state != "RUNNING"]
        if waiting:
            raise ServiceError(f"not running: {', '.join(waiting)}")

    def _raise_if_down(self) -> None:
        """Raise ServiceError, with its log, for a program that ended or was restarted: each has one try during the
        start."""
        for each in self.poll():
            first = self._first_pid.setdefault(each.name, each.pid) if each.pid else 0
            if each.state in FAILED or (each.pid and each.pid != first):
                raise ServiceError(
                    f"{each.name} does not start: {each.message}\n{self.tail(each.name)}",
                    remedy=f"the whole log is {log_file(each.name, self.plan.folders)}",
                )

    def poll(self) -> list[Process]:
        """Return the state of every program, and update the process table. Raises ServiceError when supervisord is
        gone."""
        try:
            processes = self._supervisor.processes()
        except ServiceError:
            if self._supervisor.alive(settle_seconds=1.0):
                raise
            raise ServiceError("supervisord has ended; the desk's processes are being stopped") from None
        self._process_table.take(self._supervisor.pid)
        return processes

    def revive(self) -> list[Process]:
        """Restart the programs that supervisord gave up on; return their states before."""
        by_name = {program.name: program for program in self.plan.programs}
        dead = [each for each in self.poll() if each.state in DOWN]
        for each in dead:
            log.warning("service.restarted", name=each.name, state=each.state, message=each.message)
            self._supervisor.run(by_name[each.name])
        return dead

    def members(self) -> list[ProcessRecord]:
        """Return the living processes of the stack, supervisord first."""
        return self._process_table.take(self._supervisor.pid)

    def tail(self, name: str) -> str:
        """Return the last lines of a program's log."""
        try:
            text = log_file(name, self.plan.folders).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join(text.splitlines()[-LOG_LINES:])

    def stop(self) -> None:
        """End everything within 10 s, even if supervisord has died; safe to call twice."""
        with signals.ignored():
            if self._supervisor.alive():
                self._process_table.take(self._supervisor.pid)
            self._supervisor.stop(STOP_SECONDS)
            process_table.end(self._process_table.living(), SWEEP_SECONDS)
            self._process_table.forget()
            self._services_file.unlink(missing_ok=True)
            folders.remove_sockets(self.plan.folders)
            self._held.close()


def _answers(url: str) -> None:
    """Raise OSError, HTTPException or ServiceError unless GET of this URL answers 200."""
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=2.0)) as connection:
        connection.request("GET", parts.path)
        status = connection.getresponse().status
    if status != 200:
        raise ServiceError(f"{url} answers {status}")
