"""The desk's processes of the rehearsal, each in a process group and a data folder of its own, and what keeps them up.

It plays the parts of a cluster around them: a new copy gets a new name and an empty folder, one that ends by itself is
replaced, one that should go gets SIGTERM and a grace time, and Prometheus is given the list.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col, func, select

from chordesk.models.states import StepState
from chordesk.models.tables.runs import Step
from tests.faults.desk import FaultDesk
from tests.fleet.machine.certificates import ADDRESS, Authority
from tests.fleet.machine.leftovers import Leftovers
from tests.fleet.machine.servers import Postgres, Prometheus, Redis
from tests.stack import Processes, free_port

RESEARCH = "research"
SINGLE = ("ops", "trade", "beat", "api")  # one of each
GRACE_SECONDS = 40.0  # a pod's terminationGracePeriodSeconds: above DESK_DRAIN_SECONDS
PROBE_SECONDS = 1.0
EARLY_ENDS = 4
Log = Callable[[str], None]


@dataclass(slots=True)
class Member:
    """A living process. port: of its metrics; times are time.monotonic(): when it started, answered first, was asked to
    go."""

    name: str
    home: Path
    port: int
    started: float
    ready: float | None = None
    leaving: float | None = None

    @property
    def role(self) -> str:
        return self.name.partition("-")[0]


@dataclass(frozen=True, slots=True)
class Drained:
    """A worker that was asked to go. held: its steps then, None if unknown. seconds: until its end. code: of exit."""

    name: str
    held: int | None
    seconds: float
    code: int


@dataclass(slots=True)
class Crew:
    """wanted: research workers that there should be. ended: unexpected ends by role. starts: seconds from a start to
    its first answer. Threads share it."""

    desk: FaultDesk
    postgres: Postgres
    redis: Redis
    prometheus: Prometheus
    authority: Authority
    log: Log
    api_port: int
    left: Leftovers
    wanted: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    drained: list[Drained] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)
    starts: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of all that ever ran
    _held: dict[str, int | None] = field(default_factory=dict)
    _early: Counter[str] = field(default_factory=Counter)  # ends in a row before an answer, by role
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def processes(self) -> Processes:
        return self.desk.processes

    def environ(self, home: Path) -> dict[str, str]:
        """Return what distinguishes the settings of one process: its data folder and its copy of the root."""
        home.mkdir(parents=True, exist_ok=True)
        root = self.authority.write_root(home / "root.crt")
        return {
            "DESK_HOME": str(home),
            "DESK_DATABASE_URL": self.postgres.url(root),
            "DESK_REDIS_URL": self.redis.url(root),
        }

    def start_single(self) -> None:
        for name in SINGLE:
            self._start(name)

    def scale(self, wanted: int) -> None:
        """Set the number of research workers: the rest is started, or asked to go, the youngest first."""
        with self._lock:
            self.wanted = wanted
            for member in self.staying(RESEARCH)[wanted:]:
                self._ask_to_go(member)
            self._fill()

    def staying(self, role: str) -> list[Member]:
        """Return the members of a role that were not asked to go, the oldest first."""
        found = [member for member in self.members.values() if member.role == role and member.leaving is None]
        return sorted(found, key=lambda member: member.started)

    def ready(self, role: str) -> list[Member]:
        return [member for member in self.staying(role) if member.ready is not None]

    def tend(self) -> None:
        """Notice ends and first answers; replace, and give Prometheus the list."""
        with self._lock:
            for member in list(self.members.values()):
                code = self.processes.running[member.name].poll()
                if code is not None:
                    self._has_ended(member, code)
                elif member.ready is None and is_ready(member.port):
                    member.ready = time.monotonic()
                    self.starts.append(member.ready - member.started)
                elif member.leaving is not None and time.monotonic() - member.leaving > GRACE_SECONDS:
                    self.log(f"{member.name} is killed: it did not end within {GRACE_SECONDS:g} s")
                    self.processes.running[member.name].kill()
            self._fill()
            self.prometheus.watch({member.name: member.port for member in self.members.values()})

    def _fill(self) -> None:
        for _ in range(self.wanted - len(self.staying(RESEARCH))):
            self._start(f"{RESEARCH}-{next(self._numbers)}")

    def _start(self, name: str) -> None:
        home = self.processes.home / name
        port, role = free_port(), name.partition("-")[0]
        command = [role] if role in ("beat", "api") else ["worker", role, "--name", name]
        environ = {**self.environ(home), "DESK_METRICS_PORT": str(port)}
        self.left.ports.add(port)
        self.processes.desk(name, *command, environ=environ)
        self.members[name] = Member(name, home, port, time.monotonic())
        if name not in self.names:
            self.names.append(name)

    def _ask_to_go(self, member: Member) -> None:
        member.leaving = time.monotonic()
        self._held[member.name] = self._steps_of(member.name)
        self.processes.running[member.name].send_signal(signal.SIGTERM)

    def _steps_of(self, name: str) -> int | None:
        """Return how many steps a worker holds; None when the database does not answer: it has to go all the same."""
        mine = select(func.count()).where(col(Step.state) == StepState.RUNNING, col(Step.owner).startswith(f"{name}@"))
        with suppress(SQLAlchemyError), self.desk.store.read() as session:
            return session.exec(mine).one()
        return None

    def _has_ended(self, member: Member, code: int) -> None:
        del self.members[member.name], self.processes.running[member.name]
        shutil.rmtree(member.home, ignore_errors=True)
        if member.leaving is not None:
            drained = Drained(member.name, self._held[member.name], time.monotonic() - member.leaving, code)
            self.drained.append(drained)
            held = "an unknown number of" if drained.held is None else str(drained.held)
            self.log(f"{member.name} had {held} steps in work and drained in {drained.seconds:.1f} s, exit code {code}")
            return
        self.ended[member.role] += 1
        self._early[member.role] = 0 if member.ready else self._early[member.role] + 1
        last = self.processes.log(member.name).strip()[-500:]
        assert self._early[member.role] < EARLY_ENDS, f"{member.name} ends before it is ready: {last}"
        self.log(f"{member.name} ended with {code}; it is replaced")
        if member.role != RESEARCH:
            self._start(member.name)

    def close(self, seconds: float = 25.0) -> None:
        """End all members; what does not end in time is killed."""
        with self._lock:
            self.wanted = 0
            left = {name: self.processes.running[name] for name in self.members}
            for process in left.values():
                process.send_signal(signal.SIGTERM)
            until = time.monotonic() + seconds
            for name, process in left.items():
                try:
                    process.wait(max(until - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                del self.processes.running[name]
            self.members.clear()


def is_ready(port: int) -> bool:
    """Return whether the process with its metrics on this port does its work by its own account: a readiness probe."""
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}:{port}/health/ready", timeout=PROBE_SECONDS) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:  # it does not listen yet, or is not ready
        return False
