"""Counters of the database, of Redis and of processor time, and what they come to a turn between two moments."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np
import psutil
from sqlmodel import col, func, select

from chordesk.models.database.store import Store
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RUN_FINAL, AttemptEnd
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Attempt, Run, Turn
from chordesk.tasks.engine.step_queries import demand
from chordesk.tasks.services import stop_signals
from chordesk.tasks.worker import log_format
from tests import homes
from tests.ordeal.check import Expected, Findings, check
from tests.ordeal.crew import FaultDesk, Held, Pace, keep_logs
from tests.ordeal.model import FaultyModel
from tests.ordeal.scaling import (
    FULL,
    GRACE_SECONDS,
    LATENCY,
    QUICK,
    RESEARCH,
    SINGLE,
    TURNS,
    Controller,
    Crew,
    Log,
    Plan,
    Scaler,
)
from tests.ordeal.servers import (
    ADDRESS,
    DATABASE,
    MARK,
    Authority,
    Leftovers,
    Postgres,
    Programs,
    Prometheus,
    Redis,
    Unavailable,
    require,
    shown,
)
from tests.ordeal.sheet import Sheet
from tests.ordeal.turns import priced, seconds_of
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, free_port, wait_for

_COUNTED = "xact_commit, xact_rollback, tup_inserted, tup_updated"
_DATABASE = f"select {_COUNTED}, pg_database_size(datname) from pg_stat_database where datname = %s"
_JOURNAL = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
_CONNECTED = "select count(*) from pg_stat_activity where datname = %s"


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals of a moment, or differences of two. Bytes: of the database's files, of its write-ahead log, in and out of
    Redis. commands: of Redis, by name; cpu: seconds by part. clients: connections at the moment, no difference."""

    commits: float
    rollbacks: float
    inserted: float
    updated: float
    size: float
    journal: float
    commands: Counter[str]
    traffic: float
    cpu: Counter[str]
    connections: int
    clients: int

    @classmethod
    def now(cls, crew: Crew) -> Counters:
        with crew.postgres.connect() as connection:
            row: Any = connection.execute(_DATABASE, [DATABASE]).fetchone()
            journal: Any = connection.execute(_JOURNAL).fetchone()
            connected: Any = connection.execute(_CONNECTED, [DATABASE]).fetchone()
        with contextlib.closing(crew.redis.client()) as client:
            info: dict[str, Any] = client.info("all")
        calls = {name.removeprefix("cmdstat_"): row for name, row in info.items() if name.startswith("cmdstat_")}
        commands = Counter({name: found["calls"] for name, found in calls.items()})
        traffic = info["total_net_input_bytes"] + info["total_net_output_bytes"]
        figures = [float(figure) for figure in row]
        return cls(
            *figures, float(journal[0]), commands, traffic, cpu_of(crew), int(connected[0]), info["connected_clients"]
        )

    def since(self, before: Counters) -> Counters:
        return Counters(
            self.commits - before.commits,
            self.rollbacks - before.rollbacks,
            self.inserted - before.inserted,
            self.updated - before.updated,
            self.size - before.size,
            self.journal - before.journal,
            self.commands - before.commands,
            self.traffic - before.traffic,
            self.cpu - before.cpu,
            self.connections,
            self.clients,
        )

    @property
    def transactions(self) -> float:
        """Both ends of one: what only reads is rolled back."""
        return self.commits + self.rollbacks


def cpu_of(crew: Crew) -> Counter[str]:
    """Return the seconds of processor time of each part so far."""
    spent: Counter[str] = Counter()
    for member in list(crew.members.values()):
        with contextlib.suppress(psutil.NoSuchProcess, KeyError):
            process = psutil.Process(crew.processes.running[member.name].pid)
            own = seconds_of(process)
            spent[member.role] += own
            if member.role == RESEARCH:
                spent["app-servers"] += seconds_of(process, children=True) - own
    for server in (crew.postgres.server, crew.redis.server, crew.prometheus.server):
        spent[server.name] += seconds_of(psutil.Process(server.pid), children=True)
    spent["model and rehearsal"] += seconds_of(psutil.Process())
    return spent


Unit = Literal["turns", "seconds"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Counters divided by turns, or by the seconds of a time without any."""

    counted: Counters
    by: float

    def lines(self, unit: Unit) -> list[tuple[str, str]]:
        """Return (name, figure) of each, for people."""
        one, found = self.by, self.counted
        busiest = ", ".join(f"{name} {calls / one:.1f}" for name, calls in found.commands.most_common(8))
        processor = ", ".join(f"{name} {seconds / one * 1000:.1f}" for name, seconds in found.cpu.most_common())
        each = "turn" if unit == "turns" else "second"
        return [
            (
                f"database transactions a {each}",
                f"{found.transactions / one:.1f} ({found.rollbacks / one:.1f} only read)",
            ),
            (f"rows inserted, updated a {each}", f"{found.inserted / one:.1f}, {found.updated / one:.1f}"),
            (f"write-ahead log a {each}", f"{found.journal / one / 1024:.1f} KiB"),
            (f"growth of the database a {each}", f"{found.size / one / 1024:.1f} KiB"),
            (f"Redis commands a {each}", f"{found.commands.total() / one:.1f} ({busiest})"),
            (f"Redis traffic a {each}", f"{found.traffic / one / 1024:.1f} KiB"),
            (f"processor ms a {each}", f"{found.cpu.total() / one * 1000:.1f} ({processor})"),
            ("connections", f"{found.connections} to the database, {found.clients} to Redis"),
        ]


def load() -> str:
    """Return the machine's load of the last minute and its processors: how far figures of time can be trusted."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"


FEED_SECONDS = 0.5
AHEAD = 3  # times the workers' turns at once are kept due or in work
GRID = 2000  # points of the running count
WARM = 3  # times its turns at once, and a worker counts as at work


@dataclass(frozen=True, slots=True)
class Steady:
    """rate: turns a second. left: steps due or in work at the end; fewer than the workers' turns, and they idled."""

    workers: int
    rate: float
    turns: int
    left: int
    cost: Cost
    load: str


def measure(controller: Controller, workers: int, seconds: float, feed: Callable[[int], None]) -> Steady:
    """Hold this number of workers, wait until each of them is well at work, and measure for so many seconds. feed:
    opens runs when less than so many steps are due; called all the time.

    Runs that begin and end all the time are a mix that stays the same. One large run would have its quick reports
    first, which have no joins, and the dearer ones when there are more workers.
    """
    crew, store, slots = controller.crew, controller.store, controller.scaler.rule.turns
    controller.pause(workers)
    enough = AHEAD * workers * slots

    def fed(condition: Callable[[], bool]) -> bool:
        feed(enough)
        return condition()

    wait_for(lambda: fed(lambda: _settled(controller, workers)), f"{workers} research workers are ready")
    since = utcnow()
    names = [member.name for member in crew.ready(RESEARCH)]
    wait_for(lambda: fed(lambda: _warm(controller, names, since, WARM * slots)), f"{', '.join(names)} are at work")
    before, began, until = Counters.now(crew), utcnow(), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        feed(enough)
        time.sleep(min(left, FEED_SECONDS))
    after, ended = Counters.now(crew), utcnow()
    with store.read() as session:
        times = session.exec(
            select(Turn.finished_at).where(col(Turn.finished_at) > began, col(Turn.finished_at) <= ended)
        ).all()
        left = demand(session)
    cost = Cost(after.since(before), max(len(times), 1))
    rate = rate_of([(at - began).total_seconds() for at in times], (ended - began).total_seconds())
    return Steady(workers, rate, len(times), left, cost, load())


def rate_of(times: Sequence[float], seconds: float) -> float:
    """Return events a second over a stretch of so many, from their times since its begin: the slope of their running
    count (least squares over an even grid).

    Turns that began together end together: a count between two moments would be off by a whole batch of them at
    either end.
    """
    grid = np.linspace(0.0, seconds, GRID)
    slope, _ = np.polyfit(grid, np.searchsorted(np.sort(np.asarray(times)), grid, side="right"), 1)
    return float(slope)


def idle(controller: Controller, seconds: float) -> Cost:
    """Measure what the fleet costs a second when nothing is due."""
    before, began = Counters.now(controller.crew), time.monotonic()
    time.sleep(seconds)
    return Cost(Counters.now(controller.crew).since(before), time.monotonic() - began)


def _settled(controller: Controller, workers: int) -> bool:
    """Return whether so many are ready, and none is on its way out."""
    controller.check()
    members = [member for member in list(controller.crew.members.values()) if member.role == RESEARCH]
    return len(members) == workers == len(controller.crew.ready(RESEARCH))


def _warm(controller: Controller, names: Sequence[str], since: dt.datetime, turns: int) -> bool:
    """Return whether each of these has ended so many attempts since then: app-servers start with the first ones."""
    controller.check()
    with controller.store.read() as session:
        rows = session.exec(
            select(Attempt.owner, func.count()).where(col(Attempt.ended_at) > since).group_by(col(Attempt.owner))
        ).all()
    done = {str(owner).partition("@")[0]: number for owner, number in rows}
    return all(done.get(name, 0) >= turns for name in names)


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
            self._names = _round_and_round(priced(self.desk.processes.app.desk.market))
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
        with stop_signals.ignored():  # a second Ctrl-C would leave half of it behind
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


FASTER = {2: 1.9, 4: 3.6}  # times the turns a second of one worker
SHOWN = 12  # findings of a kind


def show(sheet: Sheet, rehearsal: Rehearsal) -> None:
    """Print everything that it came to, after the fleet has gone."""
    _show_decisions(sheet, rehearsal)
    if rehearsal.outcome.counted:
        _show_work(sheet, rehearsal)
        _show_faults(sheet, rehearsal)
    if rehearsal.outcome.steady:
        _show_speed(sheet, rehearsal)
    _show_costs(sheet, rehearsal)


def _show_decisions(sheet: Sheet, rehearsal: Rehearsal) -> None:
    rule, controller = rehearsal.plan.rule, rehearsal.controller
    sheet.head(
        f"scaling: {rule.least} to {rule.most} workers, {rule.turns} steps each, a look every {rule.poll:g} s, "
        f"down after {rule.settle:g} s"
    )
    for decision in controller.changes():
        minutes, seconds = divmod(int(decision.at), 60)
        sheet.line(f"{minutes:3d}:{seconds:02d}", f"{decision.before} -> {decision.workers}", decision.reason)
    failed = sum(decision.steps is None for decision in controller.decisions)
    sheet.line("looks", str(len(controller.decisions)), f"{failed} of them failed, and changed nothing")
    sheet.least("most workers ready at once", controller.most_ready, rule.most, form="d")
    sheet.most("workers at the end", rehearsal.outcome.workers_left, rule.least, form="d")
    starts = rehearsal.crew.starts
    sheet.line("a process answers after", f"{max(starts, default=0.0):.1f} s", f"the slowest of {len(starts)} starts")


def _show_work(sheet: Sheet, rehearsal: Rehearsal) -> None:
    outcome, found = rehearsal.outcome, rehearsal.outcome.findings
    sheet.head("work: what the runs left behind, by the database and by the model's record of its calls")
    kinds = f"{len(rehearsal.screens)} screens, {len(rehearsal.research)} of research"
    sheet.line("runs ended", f"{outcome.runs - outcome.unfinished}", kinds)
    sheet.most("runs not ended", outcome.unfinished, 0, form="d")
    sheet.line("turns", str(outcome.turns), f"{outcome.scraped_turns:g} by Prometheus, without a killed one's last")
    sheet.most("steps lost", len(found.lost), 0, form="d")
    sheet.most("done twice", len(found.doubled), 0, form="d")
    sheet.most("other findings", len(found.wrong), 0, form="d")
    for kind, items in (("lost", found.lost), ("twice", found.doubled), ("other", found.wrong)):
        for item in items[:SHOWN]:
            print(f"      {kind}: {item}", flush=True)
    missing = sorted(set(rehearsal.crew.names) - outcome.scraped)
    sheet.line("most steps due or in work", f"{outcome.demand:g}", "by the gauge that Prometheus scrapes of ops")
    sheet.most("processes that Prometheus missed", len(missing), 0, form="d", note=", ".join(missing))


def _show_faults(sheet: Sheet, rehearsal: Rehearsal) -> None:
    outcome, crew = rehearsal.outcome, rehearsal.crew
    sheet.head("faults: one worker killed, Redis and Postgres restarted, all while four workers were busy")
    note = f"until others had the killed worker's {outcome.held} steps, which queue behind what was due"
    sheet.line("takeover", f"{outcome.takeover:.1f} s", note)
    sheet.least("steps due or in work at each fault", min(outcome.busy, default=0), TURNS, form="d")
    for name, seconds in outcome.away.items():
        sheet.line(f"{name} was away", f"{seconds:.1f} s")
    for role, times in crew.ended.items():
        note = "the one that was killed" if (role, times) == (RESEARCH, 1) else "replaced each time"
        sheet.line(f"{role} ended without being asked", str(times), note)
    slowest = max((one.seconds for one in crew.drained), default=0.0)
    busy = max((one.held or 0 for one in crew.drained), default=0)
    note = f"the slowest of {len(crew.drained)}, with up to {busy} turns in work"
    sheet.most("time to drain", slowest, GRACE_SECONDS, " s", note=note)
    sheet.most("drains that did not exit 0", sum(one.code != 0 for one in crew.drained), 0, form="d")
    sheet.line("turns given back by drains", str(outcome.given_back), "they went on elsewhere, and cost no attempt")


def _show_speed(sheet: Sheet, rehearsal: Rehearsal) -> None:
    sheet.head(f"speed: {TURNS} turns at once a worker, two calls a turn of a model that takes {LATENCY:g} s each")
    one = rehearsal.outcome.steady[0].rate
    for found in rehearsal.outcome.steady:
        name, note = f"turns/s with {found.workers}", f"{found.turns} turns, {found.load}"
        sheet.line(name, f"{found.rate:.2f}", note)
        if found.left < found.workers * TURNS:
            sheet.least(f"queued at its end, {found.workers}", found.left, found.workers * TURNS, form="d")
        if found.workers in FASTER and one:
            sheet.least(f"faster with {found.workers}", found.rate / one, FASTER[found.workers], "x", ".2f")


def _show_costs(sheet: Sheet, rehearsal: Rehearsal) -> None:
    for found in rehearsal.outcome.steady:
        sheet.head(f"costs with {found.workers} workers at work, idle times and all")
        for name, figure in found.cost.lines("turns"):
            sheet.line(name, figure)
    if rehearsal.outcome.idle is not None:
        sheet.head("costs of an idle fleet with one worker")
        for name, figure in rehearsal.outcome.idle.lines("seconds"):
            sheet.line(name, figure)


def show_leftovers(sheet: Sheet, left: Leftovers) -> None:
    """Print what is left of the rehearsal, after ending it."""
    sheet.head(f"left behind ({load()})")
    for kind, found in (
        ("processes", left.end_processes()),
        ("ports that answer", left.listening()),
        ("folders", left.there()),
    ):
        sheet.most(kind, len(found), 0, form="d", note=shown(kind, found) if found else "")


INTERRUPTED = 130  # exit code after a signal, as shells have it for Ctrl-C
# After the limit: time for everything to be taken down in order.
LAST_SECONDS = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ordeal.fleet", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter parts and the same faults: some three minutes")
    plan = QUICK if parser.parse_args().quick else FULL
    log_format.configure(load_settings({"DESK_LOG_LEVEL": "ERROR"}))
    began = time.monotonic()

    def log(text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        print(f"{minutes:3d}:{seconds:02d}  {text}", flush=True)

    sheet, left, limit, code = Sheet(), Leftovers(secrets.token_hex(8)), Limit(plan.limit), 0
    rehearsal = None
    try:
        programs = require()
        with stop_signals.raised(), limit, fleet(plan, programs, left, log) as rehearsal:
            rehearsal.play()
    except Unavailable as error:
        print(f"make fleet needs programs that are {error}", file=sys.stderr)
        return 2
    except stop_signals.StopRequested as request:
        log(f"stopped by {request}")
        code = INTERRUPTED
    except Exception:
        # Whatever the limit interrupted may raise an error of its own.
        if not limit.passed:
            traceback.print_exc()
        log(f"not over after {plan.limit:g} s" if limit.passed else "failed")
        code = 3 if limit.passed else 1
    if rehearsal is not None and code != INTERRUPTED:
        show(sheet, rehearsal)
    show_leftovers(sheet, left)
    sheet.close()
    return code or (1 if sheet.missed else 0)


class Overdue(Exception):
    """The rehearsal took longer than its plan allows."""


class Limit:
    """A time limit on a block, which then raises Overdue. When even the end takes too long, this process ends, and all
    others with it: they are tied to it."""

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._seconds = seconds
        self._last = threading.Timer(seconds + LAST_SECONDS, os._exit, (3,))
        self._last.daemon = True

    def __enter__(self) -> Limit:
        self._before = signal.signal(signal.SIGALRM, self._overdue)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        self._last.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._last.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _overdue(self, _number: int, _frame: FrameType | None) -> None:
        self.passed = True
        raise Overdue


if __name__ == "__main__":
    raise SystemExit(main())
