"""A run's label is true of all that is done in it: workers that differ from it fail its steps and say why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from celery import Celery

from models.setting_sources import load_settings
from models.states import RUN_FINAL, RunState, StepKind, StepState
from models.store import Store
from models.tables import Run
from tasks.app import create_app
from tasks.bootstrap import desk_of
from tasks.graph import NewStep
from tasks.runs import open_screen
from tasks.trade import place
from tasks.work import work
from tests.builders import MARKET_NOW
from tests.stack import Processes, processes, wait_for
from tests.tasks.queue.steps import get, get_run, opened

RULES = "rulebook (rules, no model)"


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    """Workers of the rulebook and of 2010-08-12, without a `desk up` that would tell others."""
    with processes() as found:
        found.rulebook()
        found.workers("research", "ops", "trade")
        yield found


def screened(desk: Processes, **environ: str) -> Run:
    """A screen opened in a terminal with these settings, at its end."""
    app = create_app(load_settings({**desk.environ, **environ}, desk.home), "terminal")
    try:
        run = open_screen(app, "IBM,GE", ["technical"])
        assert run is not None
        store = desk_of(app).store
        wait_for(lambda: get_run(store, run.id).state in RUN_FINAL, "the run ends", 40)
        return get_run(store, run.id)
    finally:
        desk_of(app).close()
        app.close()


def test_a_run_of_the_workers_own_label_is_done(desk: Processes) -> None:
    run = screened(desk)
    assert (run.state, run.provider, run.model) == (RunState.DONE, "rulebook", RULES)
    assert (run.market, run.market_now, run.summary["spokenBy"]) == ("replay", MARKET_NOW, RULES)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": "http://127.0.0.1:1/v1", "DESK_MODEL": "big"},
            f"endpoint:big speaks; this worker has {RULES}",
        ),
        (
            {"DESK_REPLAY_DATE": "2010-08-11"},
            "is on replay at 2010-08-11 19:55 UTC; this worker is on replay at 2010-08-12 19:55 UTC",
        ),
    ],
)
def test_a_run_that_was_opened_with_other_settings_fails_plainly(
    desk: Processes, environ: dict[str, str], said: str
) -> None:
    run = screened(desk, **environ)
    assert run.state == RunState.FAILED
    note = run.notes[0]
    assert said in note
    assert "open runs with the workers' own DESK_PROVIDER" in note
    assert (run.summary["turns"], run.summary["hits"]) == (0, 0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"replay_date": MARKET_NOW.date().replace(day=11)}, "this worker is on replay at 2010-08-11"),
        ({"market": "yahoo"}, "this worker is on yahoo at "),
    ],
)
def test_orders_are_priced_on_the_runs_own_market_and_day(
    make_app: Callable[..., Celery], settings: dict[str, object], said: str
) -> None:
    app = make_app(**settings)
    store: Store = desk_of(app).store
    step = NewStep(StepKind.SUBMIT, "", payload={"decision_id": "none"})
    opened(store, step)
    work(app, step.id, place)
    found = get(store, step.id)
    assert found.state == StepState.FAILED
    assert "is on replay at 2010-08-12 19:55 UTC" in str(found.error)
    assert said in str(found.error)
