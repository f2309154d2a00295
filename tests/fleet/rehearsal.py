"""The course of the rehearsal: bring the fleet up, measure it, work and break it, look at what it left."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlmodel import col, func, select

from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL, AttemptEnd
from chordesk.models.tables.runs import Attempt, Run, Turn
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.engine.step_queries import demand
from chordesk.tasks.services import signals
from tests import homes
from tests.bench.names import priced
from tests.faults.check import Expected, Findings, check
from tests.faults.desk import FaultDesk, Held, Pace, keep_logs
from tests.faults.model import FaultyModel
from tests.fleet.controller import Controller
from tests.fleet.costs import Cost
from tests.fleet.crew import RESEARCH, SINGLE, Crew, Log
from tests.fleet.machine.certificates import ADDRESS, Authority
from tests.fleet.machine.leftovers import MARK, Leftovers
from tests.fleet.machine.programs import Programs
from tests.fleet.machine.servers import Postgres, Prometheus, Redis
from tests.fleet.plan import LATENCY, TURNS, Plan
from tests.fleet.scaler import Scaler
from tests.fleet.steady import Steady, idle, measure
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, free_port, wait_for

SCRAPE_SECONDS = 2.0
FOREIGN = ("DESK_", "TRADER_", "AUTONOMOUS_", "ALPACA_")
COUNT_SECONDS = 60.0  # of the limit, for the count at the end
NO_DECISION = Expected(decided=False)


@dataclass(slots=True)
class Outcome:
    """What a rehearsal found. counted: whether it came as far as the count. turns: by the database; scraped_turns: by
    Prometheus. demand: the most, as Prometheus has it; scraped: processes that it reached. away: seconds of each
    server's restart. busy: steps due or in work at each fault. takeover: seconds until others had the killed worker's
    steps. given_back: attempts of drained workers that were interrupted."""

    steady: list[Steady] = field(default_factory=list)
    idle: Cost | None = None
    runs: int = 0
    unfinished: int = 0
    turns: int = 0
    counted: bool = False
    scraped_turns: float = 0.0
    demand: float = float("nan")
    findings: Findings = field(default_factory=Findings)
    busy: list[int] = field(default_factory=list)
    held: int = 0
    takeover: float = float("inf")
    away: dict[str, float] = field(default_factory=dict)
    given_back: int = 0
    workers_left: int = 0
    scraped: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Rehearsal:
    """A fleet that is up."""

    plan: Plan
    crew: Crew
    controller: Controller
    began: float
    token: str
    outcome: Outcome = field(default_factory=Outcome)
    screens: list[str] = field(default_factory=list)
    research: list[str] = field(default_factory=list)
    _names: Iterator[str] | None = None

    @property
    def desk(self) -> FaultDesk:
        return self.crew.desk

    @property
    def runs(self) -> list[str]:
        return [*self.screens, *self.research]

    def play(self) -> None:
        """All parts, one after the other."""
        self.crew.log("the fleet is up; it idles for a moment, to see what that costs")
        self.outcome.idle = idle(self.controller, self.plan.window / 2)
        self._measure()
        self.controller.pause(None)
        self._main()
        self._look()

    # Runs

    def open(self, kind: str, symbols: int, *, log: bool = True) -> None:
        """Open a run of so many names over the HTTP API. Names come round again once all had their turn."""
        names = [next(self.names) for _ in range(symbols)]
        asked: dict[str, Any] = {"kind": kind, "by": "rehearsal", "symbols": names}
        if kind == "screen":
            asked |= {"lenses": ["technical", "catalyst"], "most": symbols}
        request = urllib.request.Request(
            f"http://{ADDRESS}:{self.crew.api_port}/runs",
            json.dumps(asked).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            run_id = json.load(answer)["id"]
        (self.screens if kind == "screen" else self.research).append(run_id)
        if log:
            self.crew.log(f"opened a run of {kind}, {symbols} names")

    @property
    def names(self) -> Iterator[str]:
        if self._names is None:
            self._names = _round_and_round(priced(desk_of(self.desk.processes.app).market))
        return self._names

    def open_runs(self) -> list[str]:
        with self.desk.store.read() as session:
            return list(session.exec(select(Run.id).where(col(Run.state).not_in(RUN_FINAL))).all())

    # Parts

    def _measure(self) -> None:
        """1, 2 and 4 workers with more queued than they can do; then three of them drain with their hands full."""
        for workers in (1, 2, 4):
            found = measure(self.controller, workers, self.plan.window, self._feed)
            self.outcome.steady.append(found)
            self.crew.log(f"steady with {workers}: {found.rate:.2f} turns/s ({found.load})")
        self.crew.log(f"that took {len(self.research)} runs of research, opened one after the other")
        self.controller.pause(1)
        wait_for(lambda: len(self._research()) == 1, "three workers drain")

    def _feed(self, enough: int) -> None:
        """Open a small run of research when less than so many steps are due or in work."""
        self.controller.check()
        with self.desk.store.read() as session:
            due = demand(session)
        if due < enough:
            self.open("research", TURNS * self.crew.wanted, log=False)

    def _main(self) -> None:
        began = time.monotonic()
        for number, (at, load) in enumerate(zip(self.plan.screens, self.plan.load, strict=True)):
            self._pass(began + at - time.monotonic())
            self.open("screen", self.plan.names)
            self.open("research", load)
            if number == 0:
                self._break()
        self._pass(began + self.plan.main - time.monotonic())
        self._settle()

    def _break(self) -> None:
        """Kill a worker, restart Redis, restart Postgres, each while all workers are busy."""
        most = self.plan.rule.most
        wait_for(self._all_ready, f"{most} research workers are ready")
        self._pass(self.plan.apart)
        held = self._kill()
        self.outcome.held = len(held.steps)
        self.outcome.takeover = self.desk.takeover(held)
        self.crew.log(f"its {len(held.steps)} steps were taken over in {self.outcome.takeover:.1f} s")
        for server in (self.crew.redis.server, self.crew.postgres.server):
            self._pass(self.plan.apart)
            self.crew.log(f"{server.name} restarts, {self._due()} steps due or in work")
            self.outcome.away[server.name] = server.restart()
            self.crew.log(f"{server.name} was away for {self.outcome.away[server.name]:.1f} s")

    def _due(self) -> int:
        """Return how many steps are due or in work, and remember it as that of a fault."""
        with self.desk.store.read() as session:
            self.outcome.busy.append(demand(session))
        return self.outcome.busy[-1]

    def _kill(self) -> Held:
        victim = self.crew.ready(RESEARCH)[-1].name
        self.crew.log(f"SIGKILL to {victim}, {self._due()} steps due or in work")
        return self.desk.kill_in_flight(victim, self.open_runs())

    def _settle(self) -> None:
        """Until all runs have ended and the rule has taken the workers away again."""
        self.crew.log("waiting for the runs to end and the workers to go")
        with suppress(TimeoutError):
            self._until(lambda: not self.open_runs(), "runs did not end")
            self._until(lambda: len(self._research()) == self.plan.rule.least, "workers did not go")
        self.outcome.workers_left = len(self._research())

    def _look(self) -> None:
        """Count what the runs left behind, from the database and from the model's own record of its calls."""
        outcome, desk = self.outcome, self.desk
        with desk.store.read() as session:
            drained = session.exec(
                select(Attempt.step_id, Attempt.attempt).where(Attempt.outcome == AttemptEnd.DRAINED)
            ).all()
            outcome.turns = session.exec(select(func.count()).select_from(Turn)).one()
        desk.excused |= {(step, attempt) for step, attempt in drained}
        outcome.given_back = len(drained)
        outcome.runs, outcome.unfinished = len(self.runs), len(self.open_runs())
        outcome.findings.add(check(desk, self.screens))
        outcome.findings.add(check(desk, self.research, NO_DECISION))
        self._ask_prometheus()
        outcome.counted = True

    def _ask_prometheus(self) -> None:
        seconds = int(time.monotonic() - self.began) + 60
        found = self.crew.prometheus.query(f"max_over_time(up[{seconds}s]) == 1")
        self.outcome.scraped = {labels["process"] for labels, _ in found}
        counted = self.crew.prometheus.query(f"sum(max_over_time(desk_turns_total[{seconds}s]))")
        self.outcome.scraped_turns = counted[0][1] if counted else 0.0
        demanded = self.crew.prometheus.query(f"max(max_over_time(desk_research_demand[{seconds}s]))")
        self.outcome.demand = demanded[0][1] if demanded else float("nan")

    # Waiting

    def _research(self) -> list[str]:
        return [name for name, member in list(self.crew.members.items()) if member.role == RESEARCH]

    def _all_ready(self) -> bool:
        return self._checked() and len(self.crew.ready(RESEARCH)) >= self.plan.rule.most

    def _checked(self) -> bool:
        self.controller.check()
        return True

    def _pass(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := min(until, self._last) - time.monotonic()) > 0:
            self._checked()
            time.sleep(min(0.5, left))

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait as long as there is time to count afterwards. Raises TimeoutError."""
        while not (self._checked() and condition()):
            if time.monotonic() > self._last:
                self.crew.log(f"{otherwise} in time")
                raise TimeoutError(otherwise)
            time.sleep(0.5)

    @property
    def _last(self) -> float:
        """The moment, by time.monotonic(), from which there is just the time to count."""
        return self.began + self.plan.limit - COUNT_SECONDS


def _round_and_round(names: Sequence[str]) -> Iterator[str]:
    while True:
        yield from names


@contextmanager
def fleet(plan: Plan, programs: Programs, left: Leftovers, log: Log) -> Iterator[Rehearsal]:
    """Bring a fleet up, and take it down with the block, in the reverse order. left: notes what must be gone then."""
    stack = ExitStack()
    try:
        yield _bring_up(plan, programs, left, log, stack)
    finally:
        with signals.ignored():  # a second Ctrl-C would leave half of it behind
            signal.setitimer(signal.ITIMER_REAL, 0)
            stack.close()


def _bring_up(plan: Plan, programs: Programs, left: Leftovers, log: Log, stack: ExitStack) -> Rehearsal:
    began = time.monotonic()
    base = Path(tempfile.gettempdir()) / f"chordesk-fleet-{os.getuid()}"
    stack.callback(_remove_if_empty, base)
    # The servers' own users must get at their folders, and at no other's.
    servers = stack.enter_context(homes.owned(base))
    servers.chmod(0o711)
    home = stack.enter_context(homes.owned())
    left.folders |= {servers, home}
    authority = Authority()
    postgres = Postgres.make(programs.postgres, servers / "postgres", authority)
    redis = Redis.make(programs.redis, servers / "redis", authority)
    prometheus = Prometheus.make(programs.prometheus, servers / "prometheus", SCRAPE_SECONDS)
    for server in (postgres.server, redis.server, prometheus.server):
        stack.callback(server.stop)
        server.on_start = left.note
        left.ports.add(server.port)
        server.start()
        log(f"{server.name} answers on port {server.port}")
    postgres.make_database()
    model = stack.enter_context(FaultyModel(LATENCY))
    token, api_port = secrets.token_urlsafe(24), free_port()
    left.ports.add(api_port)
    environ = _environ(model, token, api_port, left.mark)
    processes = Processes(home, environ, forked=False)
    stack.callback(processes.close)
    desk = FaultDesk(processes, model, Pace(latency=LATENCY))
    stack.callback(keep_logs, desk)
    crew = Crew(desk, postgres, redis, prometheus, authority, log, api_port, left)
    environ |= crew.environ(home / "rehearsal")
    _migrate(environ)
    log("the database has its tables; the desk's processes start")
    stack.callback(crew.close)
    store = stack.enter_context(_closing(Store(processes.settings.database)))
    controller = Controller(crew, store, Scaler(plan.rule, paused=1), lambda: time.monotonic() - began)
    stack.enter_context(controller)
    crew.start_single()
    rehearsal = Rehearsal(plan, crew, controller, began, token)
    wait_for(lambda: _up(rehearsal), "all processes answer")
    return rehearsal


def _up(rehearsal: Rehearsal) -> bool:
    rehearsal.controller.check()
    ready = {member.role for member in list(rehearsal.crew.members.values()) if member.ready is not None}
    return ready >= {*SINGLE, RESEARCH}


def _environ(model: FaultyModel, token: str, api_port: int, mark: str) -> dict[str, str]:
    """Return the settings that all processes share, without what the shell has of them."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    return clean | {
        "DESK_PROVIDER": "endpoint",
        "DESK_PROVIDER_URL": model.url,
        "DESK_MARKET": "replay",
        "DESK_BROKER": "paper",
        "TRADER_LIVE": "1",  # on paper
        "DESK_CODEX_TURNS": str(TURNS),
        "DESK_PREMARKET": "off",
        "DESK_MIDDAY": "off",
        "DESK_COOLDOWN_HOURS": "0",
        "DESK_API_TOKEN": token,
        "DESK_API_PORT": str(api_port),
        "PYTHONUNBUFFERED": "1",
        MARK: mark,
    }


def _migrate(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "chordesk.tasks.cli.main", "db", "upgrade"]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@contextmanager
def _closing(store: Store) -> Iterator[Store]:
    try:
        yield store
    finally:
        store.close()


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
