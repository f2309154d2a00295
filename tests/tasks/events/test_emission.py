"""Changes of runs and steps become events in the transaction that makes the change."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import LeaseLost
from chordesk.models.events import Domain, Envelope, EventType
from chordesk.models.settings import Settings
from chordesk.models.states import AttemptEnd, StepState
from chordesk.models.tables.runs import Step
from chordesk.tasks.engine import graph, step_queries
from chordesk.tasks.engine.policy import LOSSES
from chordesk.tasks.engine.steps import again_event
from chordesk.tasks.worker import control
from tests.tasks.engine.steps import ago, change, claimed, lost_before, opened, report


def run_events(store: Store, run_id: str) -> list[Envelope]:
    with store.read() as session:
        return event_log.read(session, run_id, 0, 100)


def step_events(store: Store, run_id: str) -> list[tuple[Any, ...]]:
    return [
        (
            one.type.value,
            one.payload["subject"],
            one.payload["attempt"],
            one.payload.get("state") or one.payload["outcome"],
        )
        for one in run_events(store, run_id)
        if one.domain is Domain.STATUS
    ]


def test_a_step_that_is_given_back_and_lost_and_done(store: Store) -> None:
    step = report("IBM")
    run, _ = opened(store, step, attempts=5)
    first = claimed(store, step.id)
    with store.session() as session:
        graph.give_back(session, first, 0, "the market is away")
    claimed(store, step.id, "gone")
    change(store, Step, step.id, lease_until=ago(1))
    held = claimed(store, step.id, "b")
    with store.session() as session:
        graph.finish(session, held, StepState.DONE)
    assert step_events(store, run.id) == [
        ("status.again", "IBM", 1, "again"),
        ("status.again", "IBM", 2, "lost"),
        ("status.ended", "IBM", 3, "done"),
    ]


def test_an_end_that_is_refused_emits_no_event(store: Store) -> None:
    step = report("IBM")
    run, _ = opened(store, step)
    held = claimed(store, step.id)
    change(store, Step, step.id, owner="another")
    with pytest.raises(LeaseLost), store.session() as session:
        event_log.append(session, [again_event(held, AttemptEnd.AGAIN, None)])
        graph.finish(session, held, StepState.DONE)
    assert step_events(store, run.id) == []


def test_steps_that_the_sweep_fails_have_events(store: Store) -> None:
    worn, lost = report("IBM"), report("GE")
    run, _ = opened(store, worn, lost)
    change(store, Step, worn.id, attempt=2, error="no data")
    lost_before(store, lost.id)
    with store.session() as session:
        step_queries.fail_exhausted(session)
    assert sorted(step_events(store, run.id)) == [
        ("status.ended", "GE", LOSSES, "failed"),
        ("status.ended", "IBM", 2, "failed"),
    ]


def test_an_abandoned_step_emits_one_event(store: Store) -> None:
    held, waiting, done = report("IBM"), report("GE"), report("AAPL")
    run, _ = opened(store, held, waiting, done)
    claimed(store, held.id)
    ended = claimed(store, done.id)
    with store.session() as session:
        graph.finish(session, ended, StepState.DONE)
    with store.session() as session:
        graph.fail_open_steps(session, run.id, "too late")
    assert sorted(step_events(store, run.id)) == [
        ("status.ended", "", 0, "failed"),  # the finish step
        ("status.ended", "AAPL", 1, "done"),
        ("status.ended", "GE", 0, "failed"),
        ("status.ended", "IBM", 1, "failed"),
    ]
    assert {one.payload["why"] for one in run_events(store, run.id) if one.payload.get("state") == "failed"} == {
        "too late"
    }


def test_a_run_that_is_stopped(store: Store, settings: Settings) -> None:
    held, waiting = report("IBM"), report("GE")
    run, _ = opened(store, held, waiting)
    claimed(store, held.id, "gone")
    with store.session() as session:
        control.mark(session, run.id)
    with store.session() as session:
        control.mark(session, run.id)  # requested twice, published once
    change(store, Step, held.id, lease_until=ago(1))
    with store.session() as session:
        assert control.settle(session, settings, run.id) == 0
    types = [one.type.value for one in run_events(store, run.id) if one.domain is Domain.RUN]
    assert types == ["run.started", "run.stopping", "run.completed"]
    assert sorted(step_events(store, run.id)) == [
        ("status.ended", "", 0, "stopped"),
        ("status.ended", "GE", 0, "stopped"),
        ("status.ended", "IBM", 1, "stopped"),
    ]
    last = run_events(store, run.id)[-1]
    assert (last.type, last.payload["state"]) == (EventType.RUN_COMPLETED, "stopped")
