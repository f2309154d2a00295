"""A step's turn on the real app-server that never ends by itself: its time and its lease end it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from celery import Celery
from sqlmodel import Session, col, select

from chordesk.agents.roles import default_roles, following
from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RUN_FINAL, RunState, StepKind, StepState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Candidate, Report, Run, Step, ToolCall, Turn
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.steps import NewStep
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.work import work
from chordesk.tasks.workflows.reporting import run_report
from chordesk.tasks.workflows.runs import label_of
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tasks.workflows.trade import submit_orders
from chordesk.tools import rogue_calls
from chordesk.tools.brokers.paper import PaperBroker
from tests.builders import MARKET_NOW, run_row
from tests.fakes.responses import Call, FakeResponses, Silence
from tests.fakes.runtime import FakeRuntime, FakeTurn
from tests.stack import Processes, processes, wait_for
from tests.tasks.engine.steps import ago, change, get, opened
from tests.tasks.worker.steps import get_run, queued

DEADLINE = 5.0  # seconds of a step; what its turn needs to reach the model on a busy machine


@dataclass
class Silent:
    """Desk of this process with a model that never answers."""

    app: Celery
    model: FakeResponses

    @property
    def store(self) -> Store:
        return self.app.desk.store

    def in_flight(self) -> int:
        return sum(one.in_flight for one in self.app.desk.runtime.status())

    def opened(self, symbol: str, attempts: int) -> tuple[str, str]:
        """A quick report on a symbol; its step's and its join's ids."""
        run, finish = run_row(**label_of(self.app.desk)), new_id()
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
            _ = app.desk.runner
            yield Silent(app, model)
        finally:
            app.desk.close()
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
    wait_for(lambda: silent.in_flight() == 0, "the turns give their slots back")


def test_a_turn_with_a_lost_lease_is_stopped_and_dropped_but_for_its_rogue_call(silent: Silent) -> None:
    step, join = silent.opened("AAPL", attempts=2)
    silent.model.script(Call("orders_submit"))
    before = len(list(silent.model.calls())) + 1
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
        (rogue,) = rogue_calls.of_steps(session, [step])
        assert (rogue.tool, rogue.kind) == ("orders_submit", "unknown")
        assert session.get_one(Turn, rogue.turn_id).status == "interrupted"
        told = event_log.read(session, rogue.run_id, 0, 100)
        assert [one.payload["call"] for one in told if one.type == "tool.rogue"] == [rogue.id]
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
            app.desk._parts["runtime"] = runtime
            _ = app.desk.runner
            step, _join = Silent(app, FakeResponses()).opened("IBM", attempts=1)
            work(app, step, run_report)
            with app.desk.store.read() as session:
                report = session.exec(select(Report)).one()
            assert get(app.desk.store, step).state == StepState.DONE
            assert (report.verdict, report.summary, report.author) == ("CONFIRMED", "Steady.", "endpoint:other")
            assert [(one.spec.model, one.spec.effort) for one in runtime.prompts] == [("other", "low")]
        finally:
            app.desk.close()
            app.close()


# A run's label is true of all that is done in it: its market and day are its own, and a worker of another model fails
# its steps with the reason.

SYMBOLS = "AAPL,IBM,MMM,XOM,GE,JPM,BAC,WMT,PG,JNJ,KO,PEP,MRK,PFE,INTC,CSCO,ORCL,HPQ,CVX,CAT,BA,DIS,HD,MCD"
DATE = re.compile(r"20\d\d-\d\d-\d\d")


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    """Yield workers of the rulebook and of 2010-08-12, without a `desk up` that would announce their settings."""
    with processes() as found:
        found.rulebook()
        found.workers("research", "ops", "trade")
        yield found


def screened(desk: Processes, universe: str = "IBM,GE", **environ: str) -> Run:
    """A screen opened in a terminal with these settings, at its end."""
    app = create_app(load_settings({**desk.environ, **environ}, desk.home), "terminal")
    try:
        run = open_screen(app, universe, ["technical", "fundamental"], max_candidates=2)
        assert run is not None
        store = app.desk.store
        wait_for(lambda: get_run(store, run.id).state in RUN_FINAL, "the run ends")
        return get_run(store, run.id)
    finally:
        app.desk.close()
        app.close()


def test_runs_of_several_replay_days_are_done_at_once_by_one_worker(desk: Processes) -> None:
    """Each on its own day, of which alone its tools know."""
    days = ("2010-08-12", "2010-03-01", "2010-06-15")
    with ThreadPoolExecutor(len(days)) as pool:
        runs = list(pool.map(lambda day: screened(desk, SYMBOLS, DESK_REPLAY_DATE=day), days))
    assert max(run.created_at for run in runs) < min(run.finished_at for run in runs if run.finished_at)
    store = desk.app.desk.store
    for day, run in zip(days, runs, strict=True):
        assert (run.state, str(run.market_now.date())) == (RunState.DONE, day)
        _saw_its_own_day_alone(store, run)


def _saw_its_own_day_alone(store: Store, run: Run) -> None:
    day = str(run.market_now.date())
    with store.read() as session:
        turns = session.exec(select(Turn).where(Turn.run_id == run.id)).all()
        calls = session.exec(select(ToolCall).where(col(ToolCall.turn_id).in_([turn.id for turn in turns]))).all()
        reports = session.exec(select(Report).where(Report.run_id == run.id)).all()
    seen = [date for call in calls for date in DATE.findall(call.output)]
    assert reports
    assert max(seen) == day
    assert {report.market_at for report in reports} == {run.market_now}
    kept = [turn for turn in turns if turn.kept]
    with store.read() as session:
        threads = session.exec(
            select(KeptThread.subject).where(col(KeptThread.thread_id).in_([turn.thread_id for turn in kept]))
        ).all()
    assert kept
    assert {subject.split("/")[1] for subject in threads} == {f"replay-{day}"}


def test_a_step_of_a_market_that_the_worker_cannot_have_waits_for_one_that_can(make_app: Callable[..., Celery]) -> None:
    app = make_app()
    store: Store = app.desk.store
    for market, at, reason in (
        ("replay", MARKET_NOW.replace(year=2031), "DESK_REPLAY_DATE=2031-08-12 is outside the replay's data"),
        ("casino", MARKET_NOW, "there is no market 'casino'"),
    ):
        step = NewStep(StepKind.SUBMIT, "", payload={"decision_id": "none"})
        run, _ = opened(store, step, market=market, market_now=at)
        work(app, step.id, submit_orders)
        found = get(store, step.id)
        assert (found.state, found.attempt) == (StepState.READY, 0)
        assert f"this worker cannot have the market of run {run.id}: {reason}" in str(found.error)


def test_orders_are_filled_on_the_market_and_day_of_their_run(make_app: Callable[..., Celery]) -> None:
    desk = make_app().desk
    run, _ = opened(desk.store, market_now=MARKET_NOW.replace(day=10))
    market = desk.market_of(run.id)
    assert (market.clock.now(), desk.market.clock.now()) == (run.market_now, MARKET_NOW)
    assert market is desk.market_of(run.id)
    broker = desk.broker_on(market)
    assert isinstance(broker, PaperBroker)
    assert broker.state().cash == desk.broker.state().cash
    assert desk.tool_context(run.id).clock.now() == run.market_now
