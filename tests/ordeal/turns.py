"""CPU time of a desk's processes, for figures of milliseconds a turn."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from sqlmodel import func, select

from chordesk.models.settings import Settings
from chordesk.models.states import STEP_FINAL, StepKind, StepState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Candidate, Report, Run, Step
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.steps import NewStep
from chordesk.tasks.worker.dispatch import send
from chordesk.tasks.workflows.runs import label_of
from chordesk.tools.market.factory import MarketKey, build_market
from chordesk.tools.market.prices import no_current_price
from chordesk.tools.market.protocol import MarketData
from tests.builders import run_row
from tests.stack import REPOSITORY, Processes, processes


@dataclass(frozen=True, slots=True)
class CpuTime:
    """User and system time of the research worker's own process, of its children (the app-servers) and of Redis; in
    seconds, or in milliseconds a turn."""

    worker: float
    app_servers: float
    redis: float

    @classmethod
    def spent(cls, desk: Processes) -> CpuTime:
        """Return the seconds that a running desk's processes have spent since they started."""
        worker, redis = (psutil.Process(desk.running[name].pid) for name in ("research", "redis"))
        own = seconds_of(worker)
        return cls(own, seconds_of(worker, children=True) - own, seconds_of(redis))

    def since(self, before: CpuTime, turns: int) -> CpuTime:
        """Return the milliseconds a turn between two moments."""
        share = 1000 / turns
        return CpuTime(
            (self.worker - before.worker) * share,
            (self.app_servers - before.app_servers) * share,
            (self.redis - before.redis) * share,
        )


def seconds_of(process: psutil.Process, *, children: bool = False) -> float:
    """Return the seconds of user and system time of a process. children: with those of its children, ended ones too."""
    times = process.cpu_times()
    spent = times.user + times.system
    if not children:
        return float(spent)
    spent += times.children_user + times.children_system
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent += sum(child.cpu_times()[:2])
    return float(spent)


def markets(settings: Settings) -> Iterator[MarketData]:
    """Yield the replay market on its newest day, then on each day before it."""
    newest = build_market(settings)
    for day in reversed(newest.sessions(200)):
        yield build_market(settings, MarketKey(newest.name, day))


def priced(market: MarketData) -> list[str]:
    """Return the names of the universe that have a price of the market's latest session."""
    names = [listing.symbol for listing in market.universe("sp500")]
    return [name for name in names if no_current_price(market, name) is None]


TOOL = ("--tool", "signals_get", "--arguments", '{"symbols":["IBM"]}')
ANSWER = '{"verdict":"REJECT","confidence":"high","summary":"measured","keyRisks":[]}'


@dataclass(frozen=True, slots=True)
class Throughput:
    """Turns per second of one kind of thread; of the queued ones CPU milliseconds a turn, and resident MiB of the
    worker and its app-servers at the peak."""

    role: str
    bare: float
    queued: float
    cpu: CpuTime
    peak_mb: float

    @property
    def ratio(self) -> float:
        return self.queued / self.bare


@dataclass(frozen=True, slots=True)
class Queued:
    """Turns per second of one round through the queue, CPU milliseconds a turn, and peak MiB."""

    rate: float
    cpu: CpuTime
    peak_mb: float


def throughput(role: str, turns: int, at_once: int, rounds: int) -> Throughput:
    """Return the median of `rounds` pairs, bare and queued in turn, so that a noisy minute hits both. Each round has a
    new app-server on both sides, over a Codex home of the same age: it slows with the threads kept there."""
    with processes(forked=False) as desk:
        desk.stand_in("--latency", "0", *TOOL, "--answer", ANSWER)
        days, pairs = markets(desk.settings), []
        for _ in range(rounds):
            bare = _bare(desk, role, turns, at_once, desk.home / "bare")
            desk.workers("research", concurrency=at_once)
            queued(desk, role, at_once, next(days))
            pairs.append((bare, queued(desk, role, turns, next(days))))
            desk.end("research")
    pairs.sort(key=lambda pair: pair[1].rate / pair[0])
    bare, middle = pairs[len(pairs) // 2]
    return Throughput(role, bare, middle.rate, middle.cpu, max(one.peak_mb for _, one in pairs))


def _bare(desk: Processes, role: str, turns: int, at_once: int, folder: Path) -> float:
    command = [sys.executable, "-m", "tests.ordeal.bare", "--role", role, "--turns", str(turns)]
    command += ["--at-once", str(at_once), "--folder", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, env=desk.environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return float(found["turns"] / found["seconds"])


def queued(desk: Processes, role: str, turns: int, market: MarketData) -> Queued:
    """Measure that many report steps of one run on a market, each of a name of its own, from sending them to the last
    one's end."""
    mine = desk.app.desk
    symbols = priced(market)
    assert turns <= len(symbols), f"at most {len(symbols)} turns a round: so many names have a price"
    run, finish = run_row(**label_of(mine) | {"market_now": market.clock.now()}, params={}), new_id()
    steps, candidates = [], []
    for number, symbol in enumerate(symbols[:turns]):
        candidate = Candidate(
            id=new_id(), run_id=run.id, symbol=symbol, instrument="equity", confidence="medium", origin="screen",
            rank=number, score=1.0,
        )  # fmt: skip
        payload = {"candidate_id": candidate.id, "instrument": "equity", "theses": [], "capital": 1.0}
        candidates.append(candidate)
        steps.append(NewStep(StepKind.REPORT, finish, symbol, role, payload))
    with mine.store.session() as session:
        if session.get(Account, "paper") is None:
            session.add(Account(name="paper", cash=1.0))
        graph.open_run(session, run, finish, 1)
        session.add_all(candidates)
        session.flush()
        ready = graph.add(session, run.id, steps, 1)
    with _Peak(desk) as peak:
        before, started = CpuTime.spent(desk), time.perf_counter()
        for step in ready:
            send(desk.app, [step])
        _until_final(desk, run, turns)
        seconds, cpu = time.perf_counter() - started, CpuTime.spent(desk).since(before, turns)
    with mine.store.read() as session:
        completed = session.exec(
            select(func.count()).select_from(Report).where(Report.run_id == run.id, Report.status == "completed")
        ).one()
    assert completed == turns, f"{completed} of {turns} reports completed"
    return Queued(turns / seconds, cpu, peak.megabytes)


def _until_final(desk: Processes, run: Run, turns: int) -> None:
    store = desk.app.desk.store
    while True:
        with store.read() as session:
            done = session.exec(
                select(func.count()).select_from(Step).where(Step.run_id == run.id, Step.state.in_(STEP_FINAL))
            ).one()
            failed = session.exec(
                select(Step.error).where(Step.run_id == run.id, Step.state == StepState.FAILED)
            ).first()
        assert failed is None, failed
        if done >= turns:
            return
        time.sleep(0.1)


class _Peak:
    """Samples the memory of the worker and its children twice a second: looking costs time too."""

    def __init__(self, desk: Processes) -> None:
        self._desk = desk
        self._stop = threading.Event()
        self.megabytes = 0.0
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.5):
            self.megabytes = max(self.megabytes, self._desk.resident_mb("research"))
