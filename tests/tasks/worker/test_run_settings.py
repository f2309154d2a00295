"""A step is done with the settings of its run, whatever those of the worker that has it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from redis import Redis
from sqlmodel import col, select

from chordesk.models.errors import UsageError
from chordesk.models.shortages import Shortage
from chordesk.models.states import StepKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Attempt, Run, Step, Sweep
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.reading.desk_status import waiting_runs
from chordesk.tasks.reading.runs import waits
from chordesk.tasks.worker.control import adopt, with_model
from chordesk.tasks.worker.endings import Done
from chordesk.tasks.worker.maintenance import close_overdue
from chordesk.tasks.worker.work import take_up, work
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen, split_universe
from chordesk.tools.orders.audit_reading import check_logs, last_entries
from tests.tasks.engine.steps import change
from tests.tasks.worker.steps import get_run

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
    assert worker.desk.serving(run.id) is worker.desk


def run_model(app: Celery) -> str:
    return app.desk.settings.model_label


def waiting_step(app: Celery, run: Run) -> Step:
    """The run's first report, after the app's process was given its message."""
    with app.desk.store.read() as session:
        step = session.exec(select(Step.id).where(Step.run_id == run.id, Step.kind == StepKind.REPORT)).one()
    work(app, step, done)
    return find_step(app, run)


def find_step(app: Celery, run: Run) -> Step:
    with app.desk.store.read() as session:
        return session.exec(select(Step).where(Step.run_id == run.id, Step.kind == StepKind.REPORT)).one()


def done(_desk: Desk, _step: ClaimedStep, _held: HeldStep) -> Done:
    return Done()


URL = "http://127.0.0.1:9/v1"
ENDPOINT = {"provider": "endpoint", "provider_url": URL}


def test_a_step_waits_for_a_worker_with_its_runs_model_and_loses_nothing(make_app: MakeApp) -> None:
    run = open_research(make_app(**ENDPOINT), ["IBM"])
    other = make_app()
    step = waiting_step(other, run)
    assert (step.state, step.attempt, step.started_at, step.owner) == ("ready", 0, None, None)
    assert step.error == (
        f"waiting: a worker with endpoint:gpt-5.5; start one or `desk runs adopt {run.id[:16]} --model ...`"
    )
    waiting_step(other, run)  # not due
    take_up(other, "other@here")
    assert find_step(other, run).sent_at is None, "it is for another worker"
    with other.desk.store.session() as session:
        (found,) = waits(session, get_run(other.desk.store, run.id))
        assert str(found).startswith("waits for a worker with endpoint:gpt-5.5; start one or `desk runs adopt")
        (of_status,) = waiting_runs(session, other.desk.settings)
        assert (of_status.run_id, of_status.waits) == (run.id, [found])
        assert session.exec(select(Attempt)).all() == [], "no attempt was made"
    able = make_app(**ENDPOINT)
    take_up(able, "able@here")
    assert Redis.from_url(able.desk.settings.redis_url.get_secret_value()).llen("able@here.dq2") == 1
    assert waiting_step(able, run).state == "done"


def test_time_without_a_worker_for_it_is_none_of_a_runs(make_app: MakeApp) -> None:
    run = open_research(make_app(**ENDPOINT), ["IBM"])
    other = make_app()
    step, store = waiting_step(other, run), other.desk.store
    hour = dt.timedelta(hours=1)
    change(store, Step, step.id, due_at=step.due_at - 5 * hour)  # for so long it has waited
    change(store, Run, run.id, deadline_at=utcnow() - hour)
    close_overdue(other.desk)
    assert get_run(store, run.id).state == "running", "nobody was there to work on it"
    take_up(make_app(**ENDPOINT), "able@here")
    left = get_run(store, run.id).deadline_at - utcnow()
    assert abs(left - 4 * hour) < dt.timedelta(minutes=10)
    change(store, Run, run.id, deadline_at=utcnow() - hour)
    close_overdue(other.desk)
    ended = get_run(store, run.id)
    assert ended.state == "partial", "one could have worked on it"
    assert ended.notes[-1] == "the run's deadline passed while it waited for a worker with endpoint:gpt-5.5"


def test_a_run_that_is_adopted_goes_on_with_the_other_model(make_app: MakeApp) -> None:
    run = open_research(make_app(**ENDPOINT), ["IBM"])
    app = make_app()
    waiting_step(app, run)
    store, settings = app.desk.store, app.desk.settings
    with store.session() as session:
        (line,) = adopt(session, with_model(settings, "rulebook"), run.id, "ann")
    assert "ann had run" in line
    adopted = get_run(store, run.id)
    assert (adopted.provider, adopted.model) == ("rulebook", settings.model_label)
    assert adopted.notes == [line]
    (chain,) = check_logs(store, settings)
    facts = [one.facts for one in last_entries([chain], 1000) if one.kind == "run_adopted"]
    assert [(one["was"], one["model"], one["by"]) for one in facts] == [("endpoint:gpt-5.5", run_model(app), "ann")]
    able = make_app()
    take_up(able, "able@here")
    assert waiting_step(able, run).state == "done"
    for text, what in (("gpt-5.5", "no provider"), ("codex", "no model"), ("endpoint:a", "no address")):
        with pytest.raises(UsageError, match=what):
            with_model(settings, text)


@pytest.mark.parametrize(
    ("opened", "worker", "lack"),
    [
        ({"role_models": "quick=codex:big"}, {}, None),  # the same provider has it
        (ENDPOINT, {**ENDPOINT, "model": "other"}, None),
        (ENDPOINT, {"provider_url": URL}, None),  # it has its address, and no key is needed on loopback
        (ENDPOINT, {**ENDPOINT, "provider_url": "http://127.0.0.1:8/v1"}, f"endpoint:gpt-5.5 at {URL}"),
        ({}, ENDPOINT, None),  # the rulebook is in every worker
        (
            {"provider": "endpoint", "provider_url": "https://model.example/v1", "provider_key": "sk"},
            {"provider_url": "https://model.example/v1"},
            "endpoint:gpt-5.5 and its key (DESK_PROVIDER_KEY)",
        ),
        (
            {"provider": "endpoint", "provider_url": "https://model.example/v1", "provider_key": "sk"},
            {"provider_url": "https://model.example/v1", "provider_key": "sk"},
            None,
        ),
    ],
)
def test_which_models_a_worker_can_have(
    make_app: MakeApp, opened: dict[str, Any], worker: dict[str, Any], lack: str | None
) -> None:
    run, desk = open_research(make_app(**opened), ["IBM"]), make_app(**worker).desk
    if lack is not None:
        with pytest.raises(UsageError) as caught:
            desk.serving(run.id)
        assert caught.value.args[0] == lack
        return
    served = desk.serving(run.id)
    assert served.settings.provider == get_run(desk.store, run.id).provider
    assert served.store is desk.store


def test_without_room_or_workers_a_run_says_so_also_while_steps_are_in_work(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    run = open_research(app, ["IBM"])
    assert run is not None
    store, step = app.desk.store, find_step(app, run)
    change(store, Step, step.id, state="running", owner="full@here")
    with store.session() as session:
        session.get_one(Sweep, 1).last_at = utcnow()
    with store.read() as session:
        assert waits(session, get_run(store, run.id), app.desk.settings) == [], "it is in work"
    full = Shortage("space", "home (/desk)", 0, 1, True)
    monkeypatch.setattr("chordesk.tasks.reading.runs.shortages", lambda _: [full])
    with store.read() as session:
        (found,) = waits(session, get_run(store, run.id), app.desk.settings)
    assert str(found) == "waits for room: space of home (/desk) (1 step)"
    monkeypatch.setattr("chordesk.tasks.reading.runs.shortages", lambda _: [])
    with store.session() as session:
        session.get_one(Sweep, 1).last_at = utcnow() - dt.timedelta(minutes=1)
    with store.read() as session:
        (found,) = waits(session, get_run(store, run.id), app.desk.settings)
    assert str(found).startswith("waits for a worker: none runs; start the desk"), "its worker was killed"
