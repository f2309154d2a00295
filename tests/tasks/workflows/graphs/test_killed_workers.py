"""Workers that are killed in the middle of graphs: the graphs go on at their nodes in others."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest
from sqlmodel import select

from models.states import RUN_FINAL, RunState, StepKind, StepState
from models.tables.graphs import GraphWrite
from models.tables.runs import Run, Step, Turn
from tasks.bootstrap import desk_of
from tasks.workflows.graph import open_graphs
from tests import zygote
from tests.fakes.obedient import obedient
from tests.fakes.responses import FakeResponses
from tests.stack import REPOSITORY, Processes, processes, wait_for
from tests.tasks.workflows.graphs.kit import MODULE
from tests.toy.graphs import NODES, TURNS

pytestmark = pytest.mark.process
TICKERS = ("AAPL", "MMM", "KO", "XOM")
SHORT = {"DESK_GRAPHS": MODULE, "DESK_LEASE_SECONDS": "3", "DESK_MAINTAIN_SECONDS": "1"}
SECONDS = 240.0


def held(desk: Processes, run_id: str, worker: str) -> int:
    """Graphs in work in a worker."""
    with desk_of(desk.app).store.read() as session:
        owners = session.exec(select(Step.owner).where(Step.run_id == run_id, Step.state == StepState.RUNNING)).all()
    return sum(str(owner).startswith(f"{worker}@") for owner in owners)


def run_of(desk: Processes, run_id: str) -> Run:
    with desk_of(desk.app).store.read() as session:
        return session.get_one(Run, run_id)


def test_graphs_go_on_at_their_nodes_after_two_kills() -> None:
    with (
        FakeResponses(obedient, latency=0.3) as model,
        processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=model.url, **SHORT) as desk,
    ):
        desk.workers("research-1", "ops", concurrency=8)
        desk.desk("beat", "beat")
        inputs = {name: {"ticker": name, "messages": [["user", name]]} for name in TICKERS}
        run_id = open_graphs(desk.app, f"{MODULE}:research", inputs).id
        repeatable = 0
        for number, calls in ((1, 12), (2, 30)):
            wait_for(lambda calls=calls: len(list(model.calls())) >= calls, f"{calls} calls", SECONDS)
            repeatable += held(desk, run_id, f"research-{number}")
            desk.end(f"research-{number}", signal.SIGKILL)
            desk.workers(f"research-{number + 1}", concurrency=8)
        wait_for(lambda: run_of(desk, run_id).state in RUN_FINAL, "the run ends", SECONDS)
        run = run_of(desk, run_id)
        assert (run.state, run.notes) == (RunState.DONE, [])
        assert run.summary["graphs"]["completed"] == len(TICKERS)
        with desk_of(desk.app).store.read() as session:
            steps = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == StepKind.GRAPH)).all()
            turns = session.exec(select(Turn).where(Turn.run_id == run_id)).all()
        for step in steps:
            assert step.result["output"]["nodes"] == list(NODES)
        assert Counter((turn.subject, turn.role) for turn in turns) == Counter(
            (name, role) for name in TICKERS for role in TURNS
        )
        shown = zygote.run(("runs", "show", run_id), desk.environ, REPOSITORY).stdout
        assert "graph KO: done, 1 chapter, 16 turns" in shown
        assert 2 <= repeatable <= 2 * len(TICKERS)
        assert len(list(model.calls())) <= len(TICKERS) * 16 + repeatable


def test_a_node_that_ended_beside_a_lost_one_is_not_run_again(tmp_path: Path) -> None:
    with (
        FakeResponses(obedient) as model,
        processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=model.url, TOY_FOLDER=str(tmp_path), **SHORT) as desk,
    ):
        desk.workers("research-1", "ops", concurrency=2)
        desk.desk("beat", "beat")
        run_id = open_graphs(desk.app, f"{MODULE}:beside", {"1": {"n": 100}}).id
        log = tmp_path / "log"
        wait_for(lambda: log.exists() and len(log.read_text().split()) == 2, "both nodes begin", SECONDS)
        wait_for(lambda: _writes(desk, run_id) == 1, "the quick node's writes are kept")
        desk.end("research-1", signal.SIGKILL)
        (tmp_path / "go").touch()
        desk.workers("research-2", concurrency=2)
        wait_for(lambda: run_of(desk, run_id).state in RUN_FINAL, "the run ends", SECONDS)
        assert Counter(log.read_text().split()) == {"quick": 1, "slow": 2}
        with desk_of(desk.app).store.read() as session:
            step = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == StepKind.GRAPH)).one()
        assert step.result["output"]["n"] == 111


def _writes(desk: Processes, run_id: str) -> int:
    with desk_of(desk.app).store.read() as session:
        return len({row.task for row in session.exec(select(GraphWrite).where(GraphWrite.run_id == run_id)).all()})
