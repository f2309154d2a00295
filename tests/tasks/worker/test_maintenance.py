"""The sweep: what was lost comes back, what is worn out fails, what is overdue is closed. Driven by the database."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from celery import Celery
from pydantic import SecretStr

from chordesk.models.database.store import Store
from chordesk.models.errors import LeaseLost
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RunState, StepState
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import graph, step_queries
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.owners import owner_of
from chordesk.tasks.engine.policy import LOSSES
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.maintenance import sweep
from chordesk.tasks.worker.work import work
from tests.patience import PATIENCE
from tests.tasks.engine.steps import ago, change, claimed, get, lose, lost_before, opened, report
from tests.tasks.worker.steps import get_run, queued

LATE = step_queries.RESEND_SECONDS + 1


def done(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    return Done()


def test_what_a_dead_process_of_this_machine_held_is_free_before_its_lease_runs_out(app: Celery, store: Store) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait(PATIENCE)
    alive = owner_of("research")
    dead = alive.replace(f":{os.getpid()}:", f":{gone.pid}:")
    elsewhere = dead.replace("@", "@another-")
    steps = [report(name) for name in ("IBM", "AAPL", "KO")]
    opened(store, *steps)
    for step, owner in zip(steps, (alive, dead, elsewhere), strict=True):
        with store.session() as session:
            assert graph.claim(session, step.id, owner, 60) is not None
    assert sweep(app)["sent"] == 1
    assert queued(app) == {"research": [("desk.report", [steps[1].id])]}


def test_a_run_past_its_deadline_ends_as_partial_with_its_steps_failed(app: Celery, store: Store) -> None:
    over, going, lost = report("IBM"), report("AAPL"), report("MMM")
    run, finish = opened(store, over, going, lost)
    work(app, over.id, done)
    late = claimed(store, going.id)
    change(store, Run, run.id, deadline_at=ago(1))
    assert sweep(app)["closed"] == 1
    found = get_run(store, run.id)
    assert (found.state, found.finished_at is not None) == (RunState.PARTIAL, True)
    assert found.notes[-1] == "the run's deadline passed"
    assert found.summary["turns"] == 0
    assert get(store, over.id).state == StepState.DONE
    for step_id in (going.id, lost.id, finish):
        assert (get(store, step_id).state, get(store, step_id).error) == (StepState.FAILED, "the run's deadline passed")
    with pytest.raises(LeaseLost), store.session() as session:
        graph.finish(session, late, StepState.DONE)
    assert sweep(app) == {"sent": 0, "freed": 0, "closed": 0}


def test_a_run_with_a_failed_finish_step_is_closed_as_failed(app: Celery, store: Store) -> None:
    step = report("IBM")
    run, finish = opened(store, step, attempts=1)
    work(app, step.id, done)
    lose(store, finish)
    assert sweep(app)["closed"] == 1
    found = get_run(store, run.id)
    assert found.state == RunState.FAILED
    assert found.notes == ["finish: gave up: 10 workers were lost while they had it", "the run could not be closed"]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, template_db: Path
) -> Iterator[str]:
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("sweeps") / "desk.db"
        shutil.copy(template_db, path)
        yield f"sqlite:///{path}"
        return
    yield request.getfixturevalue("postgres").migrated()


@pytest.fixture
def sweepers(database: str, address: str, tmp_path: Path) -> Iterator[list[Celery]]:
    """Apps of several workers over one database."""
    settings = load_settings({"DESK_HOME": str(tmp_path), "DESK_REDIS_URL": address}, tmp_path)
    settings = settings.model_copy(update={"database_url": SecretStr(database)})
    apps = [create_app(settings, f"sweeper{number}") for number in range(4)]
    yield apps
    for app in apps:
        app.desk.close()
        app.close()


def at_once(apps: list[Celery]) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    start = threading.Barrier(len(apps))

    def one(app: Celery) -> None:
        start.wait()
        found.append(sweep(app))

    threads = [threading.Thread(target=one, args=(app,)) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(found) == len(apps)
    return found


def test_sweeps_at_once_do_no_harm(sweepers: list[Celery]) -> None:
    app, store = sweepers[0], sweepers[0].desk.store
    worn = [report(f"W{number}") for number in range(24)]
    lost = [report(f"L{number}") for number in range(24)]
    others = [report(f"O{number}") for number in range(2)]
    _, finish = opened(store, *worn, *lost, *others, attempts=1)
    lost_before(store, *(step.id for step in worn))
    for step in lost:
        change(store, Step, step.id, sent_at=ago(LATE))
    at_once(sweepers)
    # Taken off their join once each: it still waits for what was lost and for the others.
    assert {get(store, step.id).state for step in worn} == {StepState.FAILED}
    assert (get(store, finish).state, get(store, finish).pending) == (StepState.WAITING, 26)
    assert sorted(queued(app)["research"]) == sorted(("desk.report", [step.id]) for step in lost)


def test_a_sweep_and_a_worker_at_once_take_a_step_off_its_join_once(sweepers: list[Celery]) -> None:
    """Each step's lease has just run out when its worker ends it after all."""
    store = sweepers[0].desk.store
    steps = [report(f"S{number}") for number in range(30)]
    _, finish = opened(store, *steps, report("last"), attempts=1)
    held = [claimed(store, step.id) for step in steps]
    lost_before(store, *(step.id for step in steps))
    held = [replace(step, owner=f"last-{step.id}", attempt=LOSSES) for step in held]
    outcomes: list[bool] = []

    def end() -> None:
        for step in reversed(held):
            try:
                with store.session() as session:
                    graph.finish(session, step, StepState.DONE)
                outcomes.append(True)
            except LeaseLost:
                outcomes.append(False)

    worker = threading.Thread(target=end)
    worker.start()
    at_once(sweepers)
    worker.join(PATIENCE)
    states = [get(store, step.id).state for step in steps]
    assert states.count(StepState.DONE) == outcomes.count(True)
    assert (get(store, finish).state, get(store, finish).pending) == (StepState.WAITING, 1)


def test_runs_are_closed_once(sweepers: list[Celery]) -> None:
    store = sweepers[0].desk.store
    runs = [opened(store, report("IBM"), deadline_at=ago(1))[0] for _ in range(4)]
    assert sum(found["closed"] for found in at_once(sweepers)) == 4
    for run in runs:
        assert sum("deadline passed" in note for note in get_run(store, run.id).notes) == 1
