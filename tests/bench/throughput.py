"""(a) turns per second, bare and through `desk.report`, and (c) the memory of worker and app-servers meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import func, select

from models.columns import new_id
from models.order_tables import Account
from models.states import STEP_FINAL, StepKind, StepState
from models.tables import Candidate, Report, Run, Step
from tasks import graph
from tasks.bootstrap import desk_of
from tasks.dispatch import send
from tasks.graph import NewStep
from tasks.labels import label_of
from tests.builders import run_row
from tests.stack import REPOSITORY, Processes, processes

TOOL = ("--tool", "signals_get", "--arguments", '{"symbols":["IBM"]}')
ANSWER = '{"verdict":"REJECT","confidence":"high","summary":"measured","keyRisks":[]}'


@dataclass(frozen=True, slots=True)
class Throughput:
    """Turns per second of one kind of thread, and resident MiB of the worker and its app-servers at the peak."""

    role: str
    bare: float
    queued: float
    peak_mb: float

    @property
    def ratio(self) -> float:
        return self.queued / self.bare


def throughput(role: str, turns: int, at_once: int, rounds: int) -> Throughput:
    """The median of `rounds` pairs, bare and queued in turn, so that a noisy minute hits both. Each round has a new
    app-server on both sides, over a Codex home of the same age: it slows with the threads kept there."""
    with processes(forked=False) as desk:
        desk.stand_in("--latency", "0", *TOOL, "--answer", ANSWER)
        pairs = []
        for _ in range(rounds):
            bare = _bare(desk, role, turns, at_once, desk.home / "bare")
            desk.workers("research", concurrency=at_once)
            queued(desk, role, at_once)
            pairs.append((bare, queued(desk, role, turns)))
            desk.end("research")
    pairs.sort(key=lambda pair: pair[1][0] / pair[0])
    bare, (rate, _) = pairs[len(pairs) // 2]
    return Throughput(role, bare, rate, max(peak for _, (_, peak) in pairs))


def _bare(desk: Processes, role: str, turns: int, at_once: int, folder: Path) -> float:
    command = [sys.executable, "-m", "tests.bench.bare", "--role", role, "--turns", str(turns)]
    command += ["--at-once", str(at_once), "--folder", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, env=desk.environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return float(found["turns"] / found["seconds"])


def queued(desk: Processes, role: str, turns: int) -> tuple[float, float]:
    """(turns per second, peak MiB) of that many report steps of one run, from sending them to the last one's end."""
    mine = desk_of(desk.app)
    symbols = [listing.symbol for listing in mine.market.universe("sp500")]
    run, finish = run_row(**label_of(mine), params={}), new_id()
    steps, candidates = [], []
    for number in range(turns):
        # A subject of its own each time: a resumed thread would carry a history that the baseline's has not.
        symbol = f"{symbols[number % len(symbols)]}-{run.id[:12]}-{number}"
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
        started = time.perf_counter()
        for step in ready:
            send(desk.app, [step])
        _until_final(desk, run, turns)
        seconds = time.perf_counter() - started
    with mine.store.read() as session:
        completed = session.exec(
            select(func.count()).select_from(Report).where(Report.run_id == run.id, Report.status == "completed")
        ).one()
    assert completed == turns, f"{completed} of {turns} reports completed"
    return turns / seconds, peak.megabytes


def _until_final(desk: Processes, run: Run, turns: int) -> None:
    store = desk_of(desk.app).store
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
