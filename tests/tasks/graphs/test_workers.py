"""`desk graph` on real workers, one of which is killed while nodes run side by side."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.states import RUN_FINAL, StepKind
from chordesk.models.tables.runs import GraphWrite, Run, Step
from chordesk.tasks.graphs.workflow import open_graphs
from tests import zygote
from tests.constants import constants
from tests.fakes.obedient import obedient
from tests.fakes.responses import FakeResponses
from tests.stack import REPOSITORY, Processes, processes, wait_for
from tests.tasks.graphs.kit import MODULE

pytestmark = pytest.mark.process


EXAMPLE = "chordesk.agents.graphs.langchain.example:build"


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    with processes(DESK_GRAPHS=MODULE, DESK_REPLAY_DATE="2010-03-10") as found:
        found.rulebook()
        found.workers("research", "ops", concurrency=8)
        yield found


def graph(desk: Processes, *arguments: str) -> Any:
    return zygote.run(("graph", *arguments), desk.environ, REPOSITORY)


def test_the_example_runs_by_the_rulebook_and_its_texts_name_it(desk: Processes) -> None:
    done = graph(desk, EXAMPLE, "--input", '{"symbol": "IBM"}', "--input", '{"symbol": "KO"}', "--json")
    assert done.returncode == 0, done.stderr + desk.log("research")[-2000:]
    rows = json.loads(done.stdout)["graphs"]
    assert [(row["graph"], row["state"], row["turns"]) for row in rows] == [("1", "done", 3), ("2", "done", 3)]
    for row, symbol in zip(rows, ("IBM", "KO"), strict=True):
        output = row["output"]
        assert f'"symbol":"{symbol}"' in output["figures"].replace(" ", "")
        assert "2010-03-10" in output["figures"]
        for text in (output["bull"], output["bear"], output["rating"]["reason"]):
            assert text.startswith("Rule, not a model: no model has read this.")
        assert output["rating"]["rating"] == "hold"


SHORT = {"DESK_GRAPHS": MODULE, "DESK_LEASE_SECONDS": "3", **constants(SWEEP_SECONDS=1)}


SECONDS = 240.0


def run_of(desk: Processes, run_id: str) -> Run:
    with desk.app.desk.store.read() as session:
        return session.get_one(Run, run_id)


def test_a_node_that_ended_beside_a_lost_one_is_not_run_again(tmp_path: Path) -> None:
    with (
        FakeResponses(obedient) as model,
        processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=model.url, TOY_FOLDER=str(tmp_path), **SHORT) as desk,
    ):
        desk.workers("research-1", "ops", concurrency=2)
        run_id = open_graphs(desk.app, f"{MODULE}:beside", {"1": {"n": 100}}).id
        log = tmp_path / "log"
        wait_for(lambda: log.exists() and len(log.read_text().split()) == 2, "both nodes begin", SECONDS)
        wait_for(lambda: _writes(desk, run_id) == 1, "the quick node's writes are kept")
        desk.end("research-1", signal.SIGKILL)
        (tmp_path / "go").touch()
        desk.workers("research-2", concurrency=2)
        wait_for(lambda: run_of(desk, run_id).state in RUN_FINAL, "the run ends", SECONDS)
        assert Counter(log.read_text().split()) == {"quick": 1, "slow": 2}
        with desk.app.desk.store.read() as session:
            step = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == StepKind.GRAPH)).one()
        assert step.result["output"]["n"] == 111


def _writes(desk: Processes, run_id: str) -> int:
    with desk.app.desk.store.read() as session:
        return len({row.task for row in session.exec(select(GraphWrite).where(GraphWrite.run_id == run_id)).all()})
