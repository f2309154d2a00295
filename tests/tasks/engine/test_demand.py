"""The demand for research workers, counted by the query that autoscalers use, on both databases."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import text

import chordesk.tasks.worker.app  # noqa: F401  the kinds of steps are declared with the app
from chordesk.models.database.store import Store
from chordesk.models.states import RunState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine.step_queries import demand
from chordesk.tasks.engine.steps import NewStep
from tests.tasks.engine.steps import ago, change, claimed, opened, report

AHEAD = dt.timedelta(hours=1)


def counted(store: Store) -> int:
    with store.read() as session:
        return demand(session)


def checked(store: Store) -> None:
    """Open steps of every state; assert the demand after each."""
    before = counted(store)
    due, held, parked = report("IBM"), report("AAPL"), report("MMM")
    parent = NewStep(StepKind.CONCLUDE, "", "GE", waits=True)
    child, split, join = report("GE", parent.id), NewStep(StepKind.SCREEN, "", ""), NewStep(StepKind.MERGE, "", "")
    run, _ = opened(store, due, held, parked, parent, child, split, join)
    assert counted(store) - before == 5, "turns and the start of a screen; no join, and nothing of other workers"
    claimed(store, held.id)
    assert counted(store) - before == 5, "one in work counts as before"
    change(store, Step, held.id, lease_until=ago(60))
    assert counted(store) - before == 5, "one of a lost worker too: another will take it"
    change(store, Step, parked.id, due_at=utcnow() + AHEAD)
    assert counted(store) - before == 4, "one that waits for its time does not count"
    for zone in (-8, 8):  # a moment is the same in each zone
        here = dt.timezone(dt.timedelta(hours=zone))
        change(store, Step, parked.id, due_at=(utcnow() + AHEAD).astimezone(here))
        assert counted(store) - before == 4
        change(store, Step, due.id, due_at=ago(1).astimezone(here))
        assert counted(store) - before == 4
    change(store, Step, child.id, state=StepState.DONE)
    assert counted(store) - before == 3
    change(store, Run, run.id, state=RunState.STOPPING)
    assert counted(store) - before == 1, "of a run that is stopped only what is in work"


def test_it_counts_what_is_due_and_in_work(store: Store) -> None:
    checked(store)


def test_it_counts_the_same_on_a_server(postgres_store: Store) -> None:
    checked(postgres_store)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
def test_the_zone_of_the_one_that_asks_does_not_matter(postgres_store: Store, zone: str) -> None:
    due, parked = report("IBM"), report("MMM")
    opened(postgres_store, due, parked)
    change(postgres_store, Step, parked.id, due_at=utcnow() + AHEAD)
    with postgres_store.session() as session:
        here = demand(session)
        session.connection().execute(text(f"SET LOCAL TIME ZONE '{zone}'"))
        assert demand(session) == here > 0
