"""(p) graphs of LangGraph: 20 through the desk against one after another, two workers against one, the CPU of a call
against a plain turn's, and the memory of a worker that plays none."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chordesk.agents.graphs.langchain.ephemeral_turns import using
from chordesk.agents.graphs.langchain.runtimes import Connection, own_bridge
from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Run
from chordesk.tasks.graphs.workflow import open_graphs
from tests.ordeal.turns import ANSWER, TOOL
from tests.stack import REPOSITORY, Processes, processes, wait_for
from tests.toy import graphs, nodes

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
    store = desk.app.desk.store

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
    command = [sys.executable, "-m", "tests.ordeal.graphs", "--url", desk.settings.provider_url]
    command += ["--home", str(desk.home / "direct"), "--graphs", str(graphs)]
    done = subprocess.run(command, cwd=REPOSITORY, env=desk.environ, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-2000:]
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--graphs", type=int, required=True)
    given = parser.parse_args()
    graph = getattr(graphs, FACTORY)().compile()
    seconds = []
    with using(own_bridge(Connection(graphs.MODEL, "endpoint", given.url, None, given.home))):
        for number in range(1 + given.graphs):
            began = time.perf_counter()
            found = graph.invoke(input_of(f"T{number}"), {"recursion_limit": 100})
            seconds.append(time.perf_counter() - began)
            assert found["nodes"] == list(nodes.NODES)
    print(json.dumps(seconds[1:]), flush=True)


if __name__ == "__main__":
    main()
