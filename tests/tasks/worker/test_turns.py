"""A step's turn on the real app-server that never ends by itself: its time and its lease end it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from celery import Celery
from sqlmodel import Session, select

from chordesk.agents.roles import default_roles, following
from chordesk.models.database.store import Store
from chordesk.models.states import StepKind, StepState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Candidate, Report, Step
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.steps import NewStep
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.turns import label_of
from chordesk.tasks.worker.work import work
from chordesk.tasks.workflows.research import run_report
from tests.builders import run_row
from tests.fakes.responses import FakeResponses, Silence
from tests.fakes.runtime import FakeRuntime, FakeTurn
from tests.stack import processes, wait_for
from tests.tasks.worker.steps import ago, change, get, queued

DEADLINE = 5.0  # seconds of a step; what its turn needs to reach the model on a busy machine


@dataclass
class Silent:
    """Desk of this process with a model that never answers."""

    app: Celery
    model: FakeResponses

    @property
    def store(self) -> Store:
        return desk_of(self.app).store

    def in_flight(self) -> int:
        return sum(one.in_flight for one in desk_of(self.app).runtime.status())

    def opened(self, symbol: str, attempts: int) -> tuple[str, str]:
        """A quick report on a symbol; its step's and its join's ids."""
        run, finish = run_row(**label_of(desk_of(self.app))), new_id()
        candidate = Candidate(
            id=new_id(), run_id=run.id, symbol=symbol, instrument="equity", confidence="medium", origin="manual",
            rank=1, score=0.0,
        )  # fmt: skip
        payload = {"candidate_id": candidate.id, "instrument": "equity", "theses": [], "capital": 1.0}
        join = NewStep(StepKind.CONCLUDE, finish, symbol, payload={"candidate_id": candidate.id}, waits=True)
        step = NewStep(StepKind.REPORT, join.id, symbol, "quick", payload)
        with self.store.session() as session:
            _account(session)
            graph.open_run(session, run, finish, attempts)
            session.add(candidate)
            session.flush()
            graph.add(session, run.id, [join, step], attempts)
        return step.id, join.id


def _account(session: Session) -> None:
    if session.get(Account, "paper") is None:
        session.add(Account(name="paper", cash=1.0))
        session.flush()


@pytest.fixture(scope="module")
def silent() -> Iterator[Silent]:
    with (
        FakeResponses(lambda body: Silence(60.0)) as model,
        processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=model.url) as desk,
    ):
        # Unchecked: a turn's own limit is longer here than the step's, so that the step's is what ends it.
        settings = desk.settings.model_copy(update={"lease_seconds": 1.5, "step_deadline_seconds": DEADLINE})
        app = create_app(settings, "test")
        try:
            _ = desk_of(app).runner
            yield Silent(app, model)
        finally:
            desk_of(app).close()
            app.close()


def test_a_turn_past_the_step_s_deadline_is_tried_again_and_then_fails(silent: Silent) -> None:
    step, join = silent.opened("IBM", attempts=2)
    work(silent.app, step, run_report)
    found = get(silent.store, step)
    assert (found.state, found.attempt) == (StepState.READY, 1)
    assert found.error == "deadline: the step did not end within 5 s (DESK_STEP_DEADLINE_SECONDS)"
    change(silent.store, Step, step, due_at=ago(0.1))
    work(silent.app, step, run_report)
    found = get(silent.store, step)
    assert (found.state, found.attempt) == (StepState.FAILED, 2)
    assert str(found.error).startswith("deadline: ")
    later = following(default_roles(), "quick")
    # A quick report that failed rejects nothing: the other roles are asked.
    assert get(silent.store, join).pending == len(later)
    assert [task for task, _ in queued(silent.app)["research"]] == ["desk.report"] * len(
        following(default_roles(), "quick")
    )
    assert len(list(silent.model.calls())) == 2
    wait_for(lambda: silent.in_flight() == 0, "the turns give their slots back")


def test_a_turn_with_a_lost_lease_is_stopped_and_dropped(silent: Silent) -> None:
    step, join = silent.opened("AAPL", attempts=2)
    before = len(list(silent.model.calls()))
    thread = threading.Thread(target=work, args=(silent.app, step, run_report))
    thread.start()
    try:
        wait_for(lambda: len(list(silent.model.calls())) > before, "the model is asked")
        assert silent.in_flight() == 1
        change(silent.store, Step, step, owner="another")
    finally:
        thread.join(DEADLINE)
    assert not thread.is_alive()
    found = get(silent.store, step)
    assert (found.state, found.owner, found.error) == (StepState.RUNNING, "another", None)
    assert get(silent.store, join).state == StepState.WAITING
    with silent.store.read() as session:
        assert session.exec(select(Report)).all() == []
    wait_for(lambda: silent.in_flight() == 0, "the turn gives its slot back")


def test_a_step_runs_on_a_runtime_that_is_not_codex() -> None:
    """A whole step: claimed, run on a runtime in plain Python with the role's own tools and model, and stored."""
    answer = {"verdict": "CONFIRMED", "confidence": "high", "summary": "Steady.", "keyRisks": ["earnings"]}
    runtime = FakeRuntime()
    runtime.turns.append(FakeTurn(json.dumps(answer), (("signals_get", {"symbols": ["IBM"]}),)))
    models = {"DESK_ROLE_MODELS": "quick=codex:other:low"}
    with processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL="http://127.0.0.1:9/v1", **models) as desk:
        app = create_app(desk.settings, "test")
        try:
            desk_of(app)._parts["runtime"] = runtime
            _ = desk_of(app).runner
            step, _join = Silent(app, FakeResponses()).opened("IBM", attempts=1)
            work(app, step, run_report)
            with desk_of(app).store.read() as session:
                report = session.exec(select(Report)).one()
            assert get(desk_of(app).store, step).state == StepState.DONE
            assert (report.verdict, report.summary, report.author) == ("CONFIRMED", "Steady.", "endpoint:other")
            assert [(one.spec.model, one.spec.effort) for one in runtime.prompts] == [("other", "low")]
        finally:
            desk_of(app).close()
            app.close()
