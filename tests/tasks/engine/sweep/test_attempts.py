"""Every attempt that has ended is written down, by whoever ends it, and shown."""

from __future__ import annotations

import pytest
from rich.console import Console
from sqlmodel import Session

from models.database.store import Store
from models.errors import LeaseLost
from models.states import AttemptEnd, RunState, StepState
from models.tables.runs import Run, Step
from tasks.cli.render.attempts import MOST_STEPS, attempts_report
from tasks.engine import graph, sweeping
from tasks.views.attempts import attempts
from tests.tasks.engine.sweep.steps import ago, change, claimed, get, opened, report, tried

LOST = "its worker was lost"


def test_one_that_ended_well(store: Store) -> None:
    step = report("IBM")
    opened(store, step)
    held = claimed(store, step.id)
    with store.session() as session:
        graph.finish(session, held, StepState.DONE)
    assert tried(store, step.id) == [(1, "a", "done", None)]


def test_given_back_and_then_failed_with_their_reasons(store: Store) -> None:
    step = report("IBM")
    opened(store, step)
    held = claimed(store, step.id)
    with store.session() as session:
        graph.give_back(session, held, 0, "overloaded: try later")
    held = claimed(store, step.id, "b")
    with store.session() as session:
        graph.finish(session, held, StepState.FAILED, error="bad_request: no")
    assert tried(store, step.id) == [
        (1, "a", "again", "overloaded: try later"),
        (2, "b", "failed", "bad_request: no"),
    ]


def test_one_that_does_not_count_leaves_all_the_others_and_keeps_its_number(store: Store) -> None:
    step = report("IBM")
    opened(store, step, attempts=1)
    held = claimed(store, step.id)
    with store.session() as session:
        graph.give_back(session, held, 0, "the worker ends", outcome=AttemptEnd.DRAINED, counts=False)
    again = claimed(store, step.id, "b")
    assert (again.attempt, again.max_attempts) == (2, 2)
    assert tried(store, step.id) == [(1, "a", "drained", "the worker ends")]


def test_a_lost_one_is_written_by_whoever_takes_over_and_not_by_the_lost_worker(store: Store) -> None:
    step = report("IBM")
    opened(store, step)
    old = claimed(store, step.id, "old")
    change(store, Step, step.id, lease_until=ago(1))
    claimed(store, step.id, "new")
    with pytest.raises(LeaseLost), store.session() as session:
        graph.finish(session, old, StepState.DONE)
    assert tried(store, step.id) == [(1, "old", "lost", LOST)]


def test_who_finds_a_lost_step_without_attempts_leaves_the_writing_to_the_sweep(store: Store) -> None:
    step = report("IBM")
    opened(store, step, attempts=1)
    claimed(store, step.id, "old")
    change(store, Step, step.id, lease_until=ago(1))
    with store.session() as session:
        assert graph.claim(session, step.id, "new", 60) is None
    assert tried(store, step.id) == []
    with store.session() as session:
        sweeping.fail_exhausted(session)
    assert tried(store, step.id) == [(1, "old", "lost", LOST)]
    assert get(store, step.id).error == f"gave up after 1 attempts: {LOST}"


def test_one_that_is_held_when_its_run_is_closed(store: Store) -> None:
    held, waiting = report("IBM"), report("AAPL")
    run, _ = opened(store, held, waiting)
    claimed(store, held.id)
    with store.session() as session:
        graph.fail_open_steps(session, run.id, "the run's deadline passed")
    assert tried(store, held.id) == [(1, "a", "failed", "the run's deadline passed")]
    assert tried(store, waiting.id) == []


def test_an_end_that_is_rolled_back_leaves_no_attempt(store: Store) -> None:
    step = report("IBM")
    opened(store, step)
    held = claimed(store, step.id)
    with pytest.raises(RuntimeError), store.session() as session:
        graph.finish(session, held, StepState.DONE)
        raise RuntimeError
    assert tried(store, step.id) == []


def shown(store: Store, run: Run) -> str:
    with store.read() as session:
        found = attempts_report(attempts(session, run))
    if found is None:
        return ""
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(found)
    return capture.get()


def test_the_report_shows_what_went_wrong_and_what_runs(store: Store) -> None:
    fine, broken = report("IBM"), report("AAPL")
    run, _ = opened(store, fine, broken)
    held = claimed(store, fine.id)
    with store.session() as session:
        graph.finish(session, held, StepState.DONE)
    assert shown(store, run) == ""
    held = claimed(store, broken.id, "research@host:12:ab")
    with store.session() as session:
        graph.give_back(session, held, 0, "server_error: 500")
    claimed(store, broken.id)
    text = shown(store, run)
    assert "1 again, 1 done, 1 running" in text
    assert "report quick AAPL" in text
    assert "IBM" not in text
    assert "1 of 2  again after 0.0 s on research@host: server_error: 500" in text
    assert "2 of 2  running" in text


def test_a_long_report_is_cut(store: Store) -> None:
    steps = [report(f"S{number}") for number in range(MOST_STEPS + 3)]
    run, _ = opened(store, *steps)
    for step in steps:
        held = claimed(store, step.id)
        with store.session() as session:
            graph.finish(session, held, StepState.FAILED, error="no")
    assert "and 3 more steps" in shown(store, run)


def test_the_attempts_of_one_run_are_not_shown_with_another(store: Store) -> None:
    step = report("IBM")
    opened(store, step)
    other, _ = opened(store, report("IBM"))
    held = claimed(store, step.id)
    with store.session() as session:
        graph.finish(session, held, StepState.DONE)
    with store.read() as session:
        assert attempts(session, _row(session, other.id)) == []


def _row(session: Session, run_id: str) -> Run:
    run = session.get_one(Run, run_id)
    assert run.state == RunState.RUNNING
    return run
