"""Effects of a stop on the rows of a run, on a real database."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import pytest
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_FINAL, RunState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Attempt, Run, Step
from chordesk.tasks.engine import graph, step_queries
from chordesk.tasks.engine.steps import NewStep
from chordesk.tasks.worker import control
from tests.databases import make_database
from tests.tasks.engine.steps import claimed, report
from tests.tasks.engine.steps import opened as open_steps

NO_STEPS: list[str] = []


@pytest.fixture
def store(tmp_path: Path) -> Store:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    make_database(url)
    made = Store(url)
    with made.session() as session:
        session.add(Account(name="paper", cash=1.0))
    return made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def opened(store: Store, *symbols: str) -> tuple[str, list[str]]:
    """A run with a quick report for each symbol; its id and theirs."""
    steps = [report(symbol) for symbol in symbols]
    run, _ = open_steps(store, *steps)
    return run.id, [step.id for step in steps]


def mark(store: Store, run_id: str) -> control.Stop:
    with store.session() as session:
        return control.mark(session, run_id)


def settle(store: Store, settings: Settings, run_id: str) -> int:
    with store.session() as session:
        return control.settle(session, settings, run_id)


def states(store: Store, run_id: str) -> list[str]:
    with store.read() as session:
        return sorted(step.state for step in session.exec(select(Step).where(Step.run_id == run_id)))


def run_of(store: Store, run_id: str) -> Run:
    with store.read() as session:
        return session.get_one(Run, run_id)


def test_waiting_steps_end_and_held_ones_are_waited_for(store: Store, settings: Settings) -> None:
    run_id, (first, second) = opened(store, "AAPL", "MMM")
    step = claimed(store, first)
    found = mark(store, run_id)
    assert (found.waiting, found.interrupted, found.state) == (2, 1, "stopping")
    assert states(store, run_id) == ["running", "stopped", "stopped"]
    with store.session() as session:
        assert graph.claim(session, second, "other", 60) is None
    assert settle(store, settings, run_id) == 1
    assert run_of(store, run_id).state == RunState.STOPPING
    with store.session() as session:
        graph.finish(session, step, StepState.STOPPED, error="the run was stopped")
    assert settle(store, settings, run_id) == 0
    run = run_of(store, run_id)
    assert (run.state, run.notes) == (RunState.STOPPED, [control.NOTE])
    assert run.summary["turns"] == 0
    assert states(store, run_id) == ["stopped"] * 3


def test_no_step_of_a_stopping_run_is_claimed_sent_again_or_joined(store: Store) -> None:
    run_id, (first, second) = opened(store, "AAPL", "MMM")
    with store.session() as session:
        run = session.get_one(Run, run_id)
        run.state = RunState.STOPPING  # marked, and nothing ended yet
    with store.session() as session:
        assert graph.claim(session, first, "worker", 60) is None
        assert graph.claim(session, second, "worker", 60) is None
        assert [step for step in step_queries.resend(session) if step.id in (first, second)] == NO_STEPS


def test_a_step_that_ends_well_meanwhile_keeps_its_result_and_adds_no_children(
    store: Store, settings: Settings
) -> None:
    run_id, (only,) = opened(store, "AAPL")
    step = claimed(store, only)
    mark(store, run_id)
    child = NewStep(StepKind.SUBMIT, str(step.parent_id))
    with store.session() as session:
        assert graph.finish(session, step, StepState.DONE, result={"kept": 1}, children=[child]) == NO_STEPS
    assert settle(store, settings, run_id) == 0
    with store.read() as session:
        assert session.get(Step, child.id) is None
        assert session.get_one(Step, only).result == {"kept": 1}
    assert states(store, run_id) == ["done", "stopped"]


def test_a_given_back_step_of_a_stopping_run_ends(store: Store, settings: Settings) -> None:
    run_id, (only,) = opened(store, "AAPL")
    step = claimed(store, only)
    mark(store, run_id)
    with store.session() as session:
        graph.give_back(session, step, 0, "its worker was ended", counts=False, sent=True)
    assert settle(store, settings, run_id) == 0
    assert states(store, run_id) == ["stopped", "stopped"]


def test_the_step_of_a_lost_worker_ends_when_its_lease_is_over(store: Store, settings: Settings) -> None:
    run_id, (only,) = opened(store, "AAPL")
    claimed(store, only)
    mark(store, run_id)
    assert settle(store, settings, run_id) == 1
    with store.session() as session:
        session.get_one(Step, only).lease_until = utcnow() - dt.timedelta(seconds=1)
    assert settle(store, settings, run_id) == 0
    with store.read() as session:
        (attempt,) = session.exec(select(Attempt)).all()
    assert (attempt.step_id, attempt.outcome) == (only, "lost")


def test_a_lease_that_ran_out_because_the_clock_was_put_forward_is_waited_for(store: Store, settings: Settings) -> None:
    """Its worker lives, and interrupts the turn a moment later."""
    run_id, (only,) = opened(store, "AAPL")
    step = claimed(store, only)
    with store.session() as session:
        session.get_one(Step, only).lease_until = utcnow() - dt.timedelta(hours=1)

    def interrupt() -> None:
        with store.session() as session:
            graph.finish(session, step, StepState.STOPPED, error="the run was stopped")

    worker = threading.Timer(0.5, interrupt)
    (found,) = control.stop_runs(store, settings, [run_id], lambda _ids: worker.start(), 20)
    worker.join()
    assert found.over
    with store.read() as session:
        (attempt,) = session.exec(select(Attempt)).all()
    assert attempt.outcome == "stopped"


def test_a_sweep_in_doubt_takes_no_step_for_lost(store: Store, settings: Settings) -> None:
    run_id, (only,) = opened(store, "AAPL")
    claimed(store, only)
    mark(store, run_id)
    with store.session() as session:
        session.get_one(Step, only).lease_until = utcnow() - dt.timedelta(hours=1)
    assert control.settle_all(store, settings, trusted=False) == 0
    assert "running" in states(store, run_id)
    assert control.settle_all(store, settings) == 1


def test_a_run_that_closes_itself_while_it_is_stopped_is_stopped(store: Store) -> None:
    run_id, _ = opened(store, "AAPL")
    mark(store, run_id)
    with store.session() as session:
        assert graph.close_run(session, run_id, RunState.DONE, {}, [])
    assert run_of(store, run_id).state == RunState.STOPPED


@pytest.mark.parametrize("state", sorted(RUN_FINAL))
def test_a_run_that_has_ended_stays_as_it_is(store: Store, settings: Settings, state: RunState) -> None:
    run_id, _ = opened(store, "AAPL")
    with store.session() as session:
        session.get_one(Run, run_id).state = state
    found = mark(store, run_id)
    assert (found.was, found.over, found.waiting) == (state, True, 0)
    settle(store, settings, run_id)
    assert run_of(store, run_id).state == state
