"""A step that waits for runs: each way in which a run ends counts it down, once; a stop takes them along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import RunState, StepKind, StepState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine import graph, step_queries, steps
from chordesk.tasks.engine.steps import ChildRun, NewStep, ReadyStep
from chordesk.tasks.worker import control
from tests.builders import run_row
from tests.tasks.engine.steps import claimed, get

ENDS = (RunState.DONE, RunState.PARTIAL, RunState.FAILED)


@dataclass
class Family:
    """A run whose step opened other runs, and the step that waits for them."""

    parent: Run
    waits: str
    children: list[str] = field(default_factory=list)
    firsts: list[ReadyStep] = field(default_factory=list)


def write(session: Session, run: Run, finish: str) -> Sequence[NewStep]:
    return [NewStep(StepKind.REPORT, finish, symbol, "quick") for symbol in ("AAPL", "IBM")]


def opened(store: Store, children: int = 2) -> Family:
    """Open a run whose one step ends with so many child runs, for which a second step waits."""
    parent, finish = run_row(), new_id()
    join = NewStep(StepKind.MERGE, finish, waits=True)
    begin = NewStep(StepKind.SCREEN, join.id)
    with store.session() as session:
        graph.open_run(session, parent, finish, 3)
        graph.add(session, parent.id, [join, begin], 3)
    runs = [ChildRun(run_row(), write, join.id) for _ in range(children)]
    held = claimed(store, begin.id)
    with store.session() as session:
        firsts = graph.finish(session, held, StepState.DONE, runs=runs)
    return Family(parent, join.id, [child.run.id for child in runs], firsts)


def close(store: Store, run_id: str, state: RunState = RunState.DONE, *, sends: bool = True) -> list[str] | None:
    with store.session() as session:
        graph.fail_open_steps(session, run_id, "over")
        closed = graph.close_run(session, run_id, state, {}, [], sends=sends)
    return None if closed is None else [step.id for step in closed.ready]


def state_of(store: Store, run_id: str) -> str:
    with store.read() as session:
        return session.get_one(Run, run_id).state


def check_counts(store: Store) -> None:
    family = opened(store)
    assert get(store, family.waits).pending == 2
    first, last = family.children
    assert close(store, first) == []
    assert get(store, family.waits).state == StepState.WAITING
    assert close(store, last, RunState.FAILED) == [family.waits]
    assert close(store, last) is None
    assert (get(store, family.waits).state, get(store, family.waits).pending) == (StepState.READY, 0)


def test_a_step_waits_for_its_runs_on_a_server_too(postgres_store: Store) -> None:
    check_counts(postgres_store)


@pytest.mark.parametrize("state", ENDS)
def test_each_end_of_a_run_counts_it_down_and_the_next_sweep_sends_the_step(store: Store, state: RunState) -> None:
    family = opened(store, 1)
    assert close(store, family.children[0], state, sends=False) == [family.waits]
    with store.session() as session:
        assert [step.id for step in step_queries.resend(session)][-1:] == [family.waits]


def test_a_lost_lease_opens_no_run(store: Store) -> None:
    parent, finish = run_row(), new_id()
    join = NewStep(StepKind.MERGE, finish, waits=True)
    begin = NewStep(StepKind.SCREEN, join.id)
    with store.session() as session:
        graph.open_run(session, parent, finish, 3)
        graph.add(session, parent.id, [join, begin], 3)
    held = claimed(store, begin.id, lease=-1)
    claimed(store, begin.id, "another")
    with pytest.raises(graph.LeaseLost), store.session() as session:
        graph.finish(session, held, StepState.DONE, runs=[ChildRun(run_row(), write, join.id)])
    with store.read() as session:
        assert [run.id for run in session.exec(select(Run)).all()] == [parent.id]
    assert get(store, join.id).pending == 1


def test_an_open_run_keeps_the_sweep_from_firing_the_step_that_waits_for_it(store: Store) -> None:
    family = opened(store, 1)
    with store.session() as session:
        assert step_queries.fire_joins(session) == []
    with store.session() as session:  # as a count that was changed from outside
        run = session.get_one(Run, family.children[0])
        run.state = RunState.DONE
        session.add(run)
    with store.session() as session:
        assert [step.id for step in step_queries.fire_joins(session)][-1:] == [family.waits]


def test_a_stop_takes_along_the_runs_that_are_waited_for(store: Store) -> None:
    family, notified = opened(store), list[list[str]]()
    held = claimed(store, family.firsts[0].id)

    def interrupt(ids: list[str]) -> None:
        notified.append(ids)
        with store.session() as session:
            graph.finish(session, held, StepState.STOPPED, error="stopped")

    (stop,) = control.stop_runs(store, Settings(), [family.parent.id], interrupt, 20)
    assert set(notified[0]) == {family.parent.id, *family.children}
    assert (stop.over, stop.interrupted, stop.waiting) == (True, 1, 2 + 2 + 1 + 2)
    assert {state_of(store, run_id) for run_id in (family.parent.id, *family.children)} == {RunState.STOPPED}
    assert get(store, family.waits).state == StepState.STOPPED


def test_a_child_run_alone_can_be_stopped_and_its_parent_goes_on(store: Store) -> None:
    family = opened(store, 1)
    (stop,) = control.stop_runs(store, Settings(), family.children, lambda ids: None, 20)
    assert stop.over
    assert (get(store, family.waits).state, state_of(store, family.parent.id)) == (StepState.READY, RunState.RUNNING)


def test_runs_of_a_run_that_its_deadline_closed_are_stopped_by_the_sweep(store: Store) -> None:
    family = opened(store)
    close(store, family.parent.id, RunState.PARTIAL)
    assert set(control.mark_left_behind(store)) == set(family.children)
    assert control.mark_left_behind(store) == []
    assert control.settle_all(store, Settings()) == 2
    assert {state_of(store, run_id) for run_id in family.children} == {RunState.STOPPED}


def test_runs_below_runs_are_found_at_any_depth(store: Store) -> None:
    family = opened(store, 1)
    first = claimed(store, family.firsts[0].id)
    inner = ChildRun(run_row(), write, _finish_of(store, family.children[0]))
    with store.session() as session:
        graph.finish(session, first, StepState.DONE, runs=[inner])
    with store.read() as session:
        found = steps.open_runs_below(session, [family.parent.id])
    assert found == dict.fromkeys([family.children[0], inner.run.id], family.parent.id)


def _finish_of(store: Store, run_id: str) -> str:
    with store.read() as session:
        return session.exec(select(Step.id).where(Step.run_id == run_id, Step.kind == StepKind.FINISH)).one()
