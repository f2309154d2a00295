"""A step is done with the settings of its run, whatever those of the worker that has it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from celery import Celery
from sqlmodel import col, select

from chordesk.models.errors import UsageError
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.states import StepKind
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.worker.turns import require_model
from chordesk.tasks.worker.work import work
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen, split_universe
from tests.tasks.worker.steps import change, get_run

MakeApp = Callable[..., Celery]
SYMBOLS = "AAPL,IBM,MSFT,XOM,GE,JPM,BAC,WMT,PG,JNJ,KO,PEP"


def shards_of(app: Celery, run: Run) -> int:
    """Let the app's process split the run's universe; return the number of shards."""
    store = app.desk.store
    with store.read() as session:
        step = session.exec(select(Step.id).where(Step.run_id == run.id, Step.kind == StepKind.SCREEN)).one()
    work(app, step, split_universe)
    with store.read() as session:
        return len(session.exec(select(Step).where(Step.run_id == run.id, col(Step.role) != "")).all())


def test_a_run_keeps_its_settings_with_the_choices_made_for_it(make_app: MakeApp) -> None:
    app = make_app(max_candidates=9, speculate=True)
    run = open_screen(app, SYMBOLS, ["technical"], 4)
    assert run is not None
    kept = get_run(app.desk.store, run.id).settings
    chosen = {"universe": SYMBOLS, "lenses": ["technical"], "max_candidates": 4}
    assert kept == {**snapshot(app.desk.settings), **chosen}
    assert (run.params["max_candidates"], run.params["lenses"]) == (4, ["technical"])


def test_a_step_uses_its_runs_settings_and_not_the_workers(make_app: MakeApp) -> None:
    run = open_screen(make_app(shard_size=5, max_candidates=3, budget_run_tokens=7), SYMBOLS, ["technical"])
    assert run is not None
    worker = make_app(shard_size=100, max_candidates=9, turn_seconds=11.0)
    assert shards_of(worker, run) == 3
    used = worker.desk.settings_of(run.id)
    assert (used.max_candidates, used.budget_run_tokens, used.turn_seconds) == (3, 7, 11.0)
    assert worker.desk.tool_context(run.id).settings == used


def test_a_run_of_an_older_version_goes_on_with_the_workers_settings(make_app: MakeApp) -> None:
    app = make_app(shard_size=5)
    run = open_screen(app, SYMBOLS, ["technical"])
    assert run is not None
    change(app.desk.store, Run, run.id, settings=None)
    worker = make_app(shard_size=100)
    assert shards_of(worker, run) == 1
    assert worker.desk.settings_of(run.id) == worker.desk.settings
    require_model(worker.desk, run.id)


def test_a_worker_that_does_not_serve_a_roles_model_refuses_with_both(make_app: MakeApp) -> None:
    run = open_research(make_app(role_models="quick=codex:big"), ["IBM"])
    worker = make_app().desk
    with pytest.raises(UsageError, match=rf"in run {run.id} quick has the model big; this worker has rulebook"):
        require_model(worker, run.id)
    require_model(make_app(role_models="risk=codex:big").desk, run.id)  # it serves the model, for another role
