"""Leases of work in hand: renewed while it goes on, ended past its time or when another took it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from celery import Celery

from chordesk.models.database.store import Store
from chordesk.models.states import StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.leases import HeldStep, NoTurns
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.work import work
from tests.patience import PATIENCE
from tests.tasks.engine.steps import change, get, opened
from tests.tasks.worker.steps import until

LEASE = 4.0  # renewed three times within it, also by a busy machine


class Waiting:
    """Handler that works until it is let go or ended, and keeps the reason of its end."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.ended: str | None = None

    def __call__(self, desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        held.on_end(self.go.set)
        self.began.set()
        assert self.go.wait(PATIENCE)
        self.ended = held.ended
        return Done({"attempt": step.attempt})


@contextmanager
def working(app: Celery, step_id: str) -> Iterator[Waiting]:
    handler = Waiting()
    thread = threading.Thread(target=work, args=(app, step_id, handler))
    thread.start()
    try:
        assert handler.began.wait(PATIENCE)
        yield handler
    finally:
        handler.go.set()
        thread.join(PATIENCE)


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app(lease_seconds=LEASE)


@pytest.fixture
def step(store: Store) -> str:
    found = NewStep(StepKind.REPORT, "", "IBM", "quick")
    opened(store, found)
    return found.id


def claim(store: Store, step_id: str) -> ClaimedStep | None:
    with store.session() as session:
        return graph.claim(session, step_id, "another", 60)


def test_a_step_longer_than_its_lease_stays_its_workers(app: Celery, store: Store, step: str) -> None:
    with working(app, step) as handler:
        end = time.monotonic() + 1.5 * LEASE
        while time.monotonic() < end:
            assert claim(store, step) is None
            time.sleep(0.05)
        assert app.desk.leases.count() == 1
        assert handler.ended is None
    assert (get(store, step).state, get(store, step).attempt) == (StepState.DONE, 1)
    assert app.desk.leases.count() == 0


def test_work_with_a_lost_lease_is_ended_and_dropped(app: Celery, store: Store, step: str) -> None:
    with working(app, step) as handler:
        change(store, Step, step, owner="another")
        until(lambda: handler.ended is not None, "the work is ended")
        assert handler.ended == "lease lost"
    assert (get(store, step).state, get(store, step).owner) == (StepState.RUNNING, "another")


def test_work_past_the_step_s_deadline_is_ended(make_app: Callable[..., Celery]) -> None:
    app = make_app(lease_seconds=LEASE, step_deadline_seconds=1.0)
    store, found = app.desk.store, NewStep(StepKind.REPORT, "", "IBM", "quick")
    opened(store, found)
    with working(app, found.id) as handler:
        until(lambda: handler.ended == "deadline", "the work is ended")


def test_one_that_has_ended_is_cancelled_as_soon_as_it_can_be() -> None:
    step = ClaimedStep(
        id="step", kind="report", role="quick", parent_id=None, subject="IBM", run_id="run",
        attempt=1, max_attempts=3, owner="worker", payload={}, claimed_at=utcnow(),
    )  # fmt: skip
    held, cancelled = HeldStep(step, time.monotonic(), NoTurns("report")), threading.Event()
    held.end("deadline")
    held.on_end(cancelled.set)
    assert cancelled.is_set()
    held.end("lease lost")
    assert held.ended == "deadline"
