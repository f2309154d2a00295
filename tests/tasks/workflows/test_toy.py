"""A new kind of run is one module: real workers do one that no line of the product knows of."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.tables.runs import Step
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes

DESK = (sys.executable, "-m", "tests.toy.desk")


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    with processes() as found:
        found.spawn("toy", *DESK, "worker")
        found.await_workers("toy")
        yield found


@pytest.fixture(scope="module")
def runs(desk: Processes) -> list[dict[str, Any]]:
    """Three runs: one that does all, one of which a part fails, one of which every part fails."""
    return printed(desk, "run", "1,2,3", "2,10", "10,11")


def printed(desk: Processes, *arguments: str) -> list[dict[str, Any]]:
    command = [*DESK, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, env=desk.environ, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def steps_of(desk: Processes, run_id: str) -> list[Step]:
    store = Store(desk.settings.database)
    with store.read() as session:
        found = list(session.exec(select(Step).where(Step.run_id == run_id)).all())
    store.close()
    return found


def test_a_workflow_of_a_test_module_runs_through_real_workers(desk: Processes, runs: list[dict[str, Any]]) -> None:
    found = runs[0]
    assert (found["kind"], found["state"], found["notes"]) == ("toy", "done", [])
    assert found["line"].startswith("squares 3/3 | doubles 2/2 | ")
    steps = steps_of(desk, found["run_id"])
    assert Counter(step.kind for step in steps) == {
        "toy_split": 1, "toy_square": 3, "toy_sum": 1, "toy_double": 2, "toy_total": 1, "finish": 1
    }  # fmt: skip
    assert {(step.state, step.attempt, step.sends) for step in steps} == {("done", 1, 1)}, "no sweep was needed"
    (total,) = [step.result["value"] for step in steps if step.kind == "toy_total"]
    assert total == 2 * 2 * (1 + 4 + 9)


def test_its_notes_and_its_end_follow_from_what_it_declares(runs: list[dict[str, Any]]) -> None:
    _, part, none = runs
    assert (part["state"], part["notes"]) == ("partial", ["10 was not squared"])
    assert (none["state"], none["notes"]) == ("failed", ["10 was not squared", "11 was not squared"])


def test_a_run_waits_for_the_runs_that_it_opened_and_goes_on_when_one_fails(desk: Processes) -> None:
    (found,) = printed(desk, "family", "1,2,3", "2,3", "10,11")
    assert found["notes"] == ["a run of [10, 11] is failed"]
    steps = steps_of(desk, found["run_id"])
    (total,) = [step.result["value"] for step in steps if step.kind == "toys_sum"]
    assert total == 4 * (1 + 4 + 9) + 4 * (4 + 9)
    assert {(step.attempt, step.sends) for step in steps} == {(1, 1)}, "no sweep was needed"
