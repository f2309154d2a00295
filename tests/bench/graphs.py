"""(p) graphs of LangGraph: 20 through the desk against one after another, two workers against one, the CPU of a call
against a plain turn's, and the memory of a worker that plays none."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlmodel import col, func, select

from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Run, Turn
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.workflows.graph import open_graphs
from tests.bench.cpu import CpuTime
from tests.bench.names import markets
from tests.bench.turns.throughput import ANSWER, TOOL, queued
from tests.stack import REPOSITORY, Processes, processes, wait_for

MODULE, FACTORY = "tests.toy.graphs", "research"
TURNS = 8  # of one worker, where two of them are compared
# A graph has a thread of its worker while it runs, also while it asks no model: some more than turns, so that those
# are in use.
THREADS = 10
AT_ONCE = 64
ROUNDS = 2  # of the two crews
WARM = 1  # rounds that fill caches and are not counted
LIMIT = 300.0


def input_of(ticker: str) -> dict[str, Any]:
    return {"ticker": ticker, "messages": [["user", ticker]]}


@dataclass(frozen=True, slots=True)
class GraphTimes:
    """Seconds of so many graphs: through the desk, and of each one where they are called directly, one after another.
    one, two: on one and two workers of TURNS turns."""

    graphs: int
    desk: float
    direct: tuple[float, ...]
    one: float
    two: float

    @property
    def in_sequence(self) -> float:
        return statistics.mean(self.direct) * self.graphs

    @property
    def faster(self) -> float:
        return self.in_sequence / self.desk

    @property
    def by_two(self) -> float:
        return self.one / self.two


def graph_times(latency: float, graphs: int, directly: int) -> GraphTimes:
    """Measure with so many seconds a model call. directly: how many are called one after another."""
    with _desk(latency) as desk:
        desk.workers("research", "ops")
        _play(desk, 1)
        seconds = _play(desk, graphs)
        direct = _directly(desk, directly)
    one, two = _on_workers(latency, graphs, ["research"], ["research-1", "research-2"])
    return GraphTimes(graphs, seconds, direct, one, two)


@contextmanager
def _desk(latency: float, **environ: str) -> Iterator[Processes]:
    with processes(forked=False, DESK_GRAPHS=MODULE, **environ) as desk:
        desk.stand_in("--latency", str(latency), "--scenario", "graphs", *TOOL, "--answer", ANSWER)
        yield desk


def _on_workers(latency: float, graphs: int, *crews: Sequence[str]) -> list[float]:
    """Return the seconds on each crew of workers, the better of two rounds in turn: all desks are up meanwhile."""
    with ExitStack() as desks:
        both = [desks.enter_context(_desk(latency, DESK_CODEX_TURNS=str(TURNS))) for _ in crews]
        for desk, workers in zip(both, crews, strict=True):
            desk.workers(*workers, "ops", concurrency=THREADS)
            _play(desk, 2 * THREADS)  # each worker has its app-server up
        rounds = [[_play(desk, graphs) for desk in both] for _ in range(ROUNDS)]
        return [min(one) for one in zip(*rounds, strict=True)]


def _play(desk: Processes, graphs: int) -> float:
    """Return the seconds of a run of so many graphs."""
    inputs = {f"T{number}": input_of(f"T{number}") for number in range(1, graphs + 1)}
    run_id = open_graphs(desk.app, f"{MODULE}:{FACTORY}", inputs).id
    store = desk_of(desk.app).store

    def ended() -> Run | None:
        with store.read() as session:
            run = session.get_one(Run, run_id)
        return run if run.state in RUN_FINAL else None

    wait_for(lambda: ended() is not None, f"{graphs} graphs end", LIMIT)
    run = ended()
    assert run is not None
    assert run.finished_at is not None
    assert run.state == RunState.DONE, run.notes
    return (run.finished_at - run.created_at).total_seconds()


def _directly(desk: Processes, graphs: int) -> tuple[float, ...]:
    assert desk.settings.provider_url is not None
    command = [sys.executable, "-m", "tests.bench.direct", "--url", desk.settings.provider_url]
    command += ["--home", str(desk.home / "direct"), "--graphs", str(graphs)]
    done = subprocess.run(command, cwd=REPOSITORY, env=desk.environ, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-2000:]
    return tuple(json.loads(done.stdout.splitlines()[-1]))


@dataclass(frozen=True, slots=True)
class BridgeCost:
    """CPU milliseconds of the worker's own process and of its app-servers: of a call of a graph, its nodes and
    checkpoints included, and of a plain turn with one tool call; medians of rounds in turn. loaded_mb: resident
    memory of the worker's own process before its first graph, and after."""

    call: CpuTime
    turn: CpuTime
    calls: int
    loaded_mb: tuple[float, float]

    @property
    def more(self) -> float:
        return self.call.worker - self.turn.worker


def bridge_cost(turns: int, rounds: int) -> BridgeCost:
    """Measure rounds of about so many turns and calls, with a model that answers at once."""
    with _desk(0.0) as desk:
        days = markets(desk.settings)
        desk.workers("research", concurrency=AT_ONCE)
        queued(desk, "quick", turns, next(days))
        before = _own_mb(desk)
        desk.workers("ops")
        found: tuple[list[CpuTime], list[CpuTime]] = ([], [])
        calls = 0
        for number in range(WARM + rounds):
            for kind in (0, 1) if number % 2 else (1, 0):
                if kind:
                    found[1].append(queued(desk, "quick", turns, next(days)).cpu)
                    continue
                began, asked = CpuTime.spent(desk), _turns(desk)
                _play(desk, -(-turns // 16))
                calls = _turns(desk) - asked
                found[0].append(CpuTime.spent(desk).since(began, calls))
        call, turn = (_median(some[WARM:]) for some in found)
        return BridgeCost(call, turn, calls, (before, _own_mb(desk)))


def _turns(desk: Processes) -> int:
    with desk_of(desk.app).store.read() as session:
        return session.exec(select(func.count(col(Turn.id)))).one()


def _own_mb(desk: Processes) -> float:
    import psutil

    return float(psutil.Process(desk.running["research"].pid).memory_info().rss / 2**20)


def _median(some: Sequence[CpuTime]) -> CpuTime:
    return CpuTime(
        *(statistics.median(getattr(one, name) for one in some) for name in ("worker", "app_servers", "redis"))
    )
