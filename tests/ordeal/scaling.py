"""The two lengths of the rehearsal."""

from __future__ import annotations

import math
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col, func, select

from chordesk.models.database.store import Store
from chordesk.models.states import StepState
from chordesk.models.tables.runs import Step
from chordesk.tasks.engine.step_queries import demand
from tests.ordeal.crew import FaultDesk
from tests.ordeal.servers import ADDRESS, Authority, Leftovers, Postgres, Prometheus, Redis
from tests.stack import Processes, free_port

LATENCY = 1.0  # seconds of each model call; a turn makes two: a tool's, and its answer's
TURNS = 8  # at once of one worker


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds, if not named otherwise.

    window: each steady measurement. screens: when screens are opened, from
    the begin of the main part; ten an hour are one each 360 s. names: symbols of a screen, all of which become
    candidates. load: symbols of the research that goes with a screen, so that four workers have to do. apart: between
    two faults. main: least length of the main part. settle: stabilisation window. limit: longest length of all.
    """

    window: float
    screens: tuple[float, ...]
    names: int
    load: tuple[int, ...]
    apart: float
    main: float
    settle: float
    poll: float
    limit: float

    @property
    def rule(self) -> Rule:
        return Rule(TURNS, least=1, most=4, poll=self.poll, settle=self.settle)


FULL = Plan(window=30, screens=(0, 360), names=20, load=(400, 400), apart=20, main=600, settle=60, poll=5, limit=900)
QUICK = Plan(window=10, screens=(0, 70), names=6, load=(220, 40), apart=6, main=110, settle=10, poll=2, limit=900)


@dataclass(frozen=True, slots=True)
class Rule:
    """turns: at once of one worker, the target of the trigger. least, most: workers; poll: seconds between looks;
    settle: seconds for which a higher recommendation holds against scaling down."""

    turns: int
    least: int = 1
    most: int = 4
    poll: float = 5.0
    settle: float = 30.0


@dataclass(frozen=True, slots=True)
class Decision:
    """at: seconds, by the clock of the caller. steps: the query's answer, None when it failed. workers: how many
    there should be from now on, and were before."""

    at: float
    steps: int | None
    before: int
    workers: int
    reason: str

    @property
    def changes(self) -> bool:
        return self.workers != self.before


@dataclass(slots=True)
class Scaler:
    """A rule with the memory of its recommendations. paused: a fixed number of workers instead, as the annotation
    `autoscaling.keda.sh/paused-replicas` has it."""

    rule: Rule
    paused: int | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def decide(self, at: float, steps: int | None, workers: int) -> Decision:
        """Return the decision at a time that is not before the last one's. steps: None when the query failed: then
        everything stays as it is. workers: how many there should be by the decision before."""
        if self.paused is not None:
            return Decision(at, steps, workers, self.paused, f"paused at {self.paused}")
        if steps is None:
            return Decision(at, None, workers, workers, "the query failed: no change")
        rule = self.rule
        wanted = min(rule.most, max(rule.least, math.ceil(steps / rule.turns)))  # as Kubernetes' autoscaler
        highest = self._remember(at, wanted)
        shown = f"{steps} steps due or in work, {rule.turns} a worker: {wanted} wanted"
        if wanted > workers:
            return Decision(at, steps, workers, wanted, shown)
        if highest < workers:
            return Decision(at, steps, workers, highest, f"{shown}, at most {highest} for {rule.settle:g} s")
        waits = f", {highest} within the last {rule.settle:g} s" if wanted < workers else ""
        return Decision(at, steps, workers, workers, shown + waits)

    def _remember(self, at: float, wanted: int) -> int:
        """Return the highest recommendation of the window, with this one."""
        while self._recent and self._recent[0][0] < at - self.rule.settle:
            self._recent.popleft()
        self._recent.append((at, wanted))
        return max(number for _, number in self._recent)


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
            "DESK_MESSAGE_KEY": self.redis.password,
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


TEND_SECONDS = 0.25


@dataclass(slots=True)
class Controller:
    """decisions: each look's, those that change nothing too. clock: seconds since the rehearsal began.
    most_ready: workers at once. error: what ended the thread."""

    crew: Crew
    store: Store
    scaler: Scaler
    clock: Callable[[], float]
    decisions: list[Decision] = field(default_factory=list)
    most_ready: int = 0
    error: BaseException | None = None
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Controller:
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join(30)

    def pause(self, workers: int | None) -> None:
        """Hold this number of workers from the next look on, whatever is due; None goes on with the rule."""
        self.scaler.paused = workers

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self.error is not None:
            raise self.error

    def changes(self) -> list[Decision]:
        return [decision for decision in self.decisions if decision.changes]

    def _run(self) -> None:
        looked = 0.0
        try:
            while not self._end.wait(TEND_SECONDS):
                self.crew.tend()
                self.most_ready = max(self.most_ready, len(self.crew.ready(RESEARCH)))
                if time.monotonic() - looked >= self.scaler.rule.poll:
                    looked = time.monotonic()
                    self._look()
        except BaseException as error:
            self.error = error

    def _look(self) -> None:
        decision = self.scaler.decide(self.clock(), self._steps(), self.crew.wanted)
        self.decisions.append(decision)
        if decision.changes:
            self.crew.log(f"scaled from {decision.before} to {decision.workers}: {decision.reason}")
            self.crew.scale(decision.workers)

    def _steps(self) -> int | None:
        """Return how much is due or in work; None when the database does not answer."""
        with suppress(SQLAlchemyError), self.store.read() as session:
            return demand(session)
        return None
