"""When a lease that has run out means a lost worker, and when it may be the clock or the database."""

from __future__ import annotations

import datetime as dt
import threading

import pytest
from celery import Celery

from chordesk.models.database.store import Store
from chordesk.models.states import StepState
from chordesk.models.tables import runs as tables
from chordesk.models.tables.runs import Step, Sweep
from chordesk.tasks.engine import graph, leases, step_queries
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.worker import maintenance
from chordesk.tasks.worker.maintenance import sweep, sweep_if_due
from tests.patience import PATIENCE
from tests.tasks.engine import steps
from tests.tasks.engine.steps import ago, change, claimed, get, lost_before, opened, report

INTERVAL, LEASE = 3.0, 9.0


class Clock:
    """The clock of every module that takes the time, off by so many seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset = 0.0
        real = tables.utcnow
        for module in (tables, graph, maintenance, leases, step_queries, steps):
            monkeypatch.setattr(module, "utcnow", lambda: real() + dt.timedelta(seconds=self.offset))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def look(store: Store) -> leases.LeaseTrust:
    with store.session() as session:
        return leases.lease_trust(session, INTERVAL, LEASE)


def held(store: Store, attempts: int = 2) -> ClaimedStep:
    step = report("IBM")
    opened(store, step, attempts=attempts)
    found = claimed(store, step.id, lease=LEASE)
    change(store, Step, step.id, sent_at=ago(1))
    return found


def renew(store: Store, step: ClaimedStep) -> bool:
    with store.session() as session:
        return step.id in graph.renew(session, [(step.id, step.attempt)], step.owner, LEASE)


def claim(store: Store, step_id: str) -> bool:
    with store.session() as session:
        return graph.claim(session, step_id, "another", LEASE) is not None


def test_after_a_gap_nothing_is_taken_until_holders_had_time_to_renew(store: Store, clock: Clock) -> None:
    look(store)
    clock.offset += 7
    found = look(store)
    assert (found.trusted, found.grace_seconds, found.put_back) == (False, 4.5, 0.0)
    clock.offset += 3
    assert look(store) == leases.LeaseTrust(trusted=False)
    clock.offset += 3
    assert look(store) == leases.LeaseTrust(trusted=True)


def test_a_living_holder_keeps_its_step_through_a_leap(app: Celery, store: Store, clock: Clock) -> None:
    step = held(store)
    sweep(app)
    clock.offset += 30
    assert sweep(app) == {"sent": 0, "freed": 0, "closed": 0}
    assert renew(store, step)
    clock.offset += 5
    assert sweep(app)["sent"] == 0
    assert get(store, step.id).owner == step.owner


def test_a_worn_out_step_is_not_failed_in_doubt(app: Celery, store: Store, clock: Clock) -> None:
    step = held(store, attempts=1)
    lost_before(store, step.id)
    change(store, Step, step.id, lease_until=ago(-LEASE), sent_at=ago(1))
    sweep(app)
    clock.offset += 30
    assert sweep(app)["freed"] == 0
    assert get(store, step.id).state == StepState.RUNNING
    clock.offset += 5
    assert sweep(app)["freed"] == 1


def test_a_message_that_comes_again_after_a_leap_takes_nothing_and_is_not_forgotten(
    app: Celery, store: Store, clock: Clock
) -> None:
    """Redis may deliver all that is held again when its clock leaps, before any sweep has looked."""
    step = held(store)
    sweep(app)
    clock.offset += 30
    assert not claim(store, step.id)
    assert (get(store, step.id).owner, get(store, step.id).sent_at) == (step.owner, None)
    sweep(app)
    assert not claim(store, step.id)
    clock.offset += 5
    assert sweep(app)["sent"] == 1
    assert claim(store, step.id)


def test_a_sweep_that_waited_for_the_database_knows_it(app: Celery, store: Store) -> None:
    """The holder could not renew either. The lease is good when the sweep asks, and over when it gets its turn."""
    step = held(store)
    sweep(app)
    soon = steps.utcnow() + dt.timedelta(seconds=0.5)
    change(store, Step, step.id, lease_until=soon)
    change(store, Sweep, 1, trusted_until=soon)
    lock = store.engine.connect()
    lock.exec_driver_sql("ROLLBACK")
    lock.exec_driver_sql("BEGIN IMMEDIATE")
    found: list[dict[str, int]] = []
    waiting = threading.Thread(target=lambda: found.append(sweep(app)))
    waiting.start()
    waiting.join(1.0)
    assert waiting.is_alive()
    lock.close()
    waiting.join(PATIENCE)
    assert [one["sent"] for one in found] == [0]
    assert renew(store, step)


def test_in_doubt_the_sweep_comes_back_by_itself(app: Celery, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "GRACE", 0.02)
    step = held(store)
    change(store, Step, step.id, lease_until=ago(1), sent_at=ago(5))
    change(store, Sweep, 1, trusted_until=ago(1))
    assert sweep_if_due(app)["sent"] == 0
    assert get(store, step.id).sends == 2, "sent by the second look"


def test_after_the_clock_was_put_back_a_lost_holder_loses_its_step_in_time(
    app: Celery, store: Store, clock: Clock
) -> None:
    clock.offset = 3600
    sweep(app)
    step = held(store)
    clock.offset = 0
    assert sweep(app)["sent"] == 0
    assert (get(store, step.id).lease_until or ago(0)) - steps.utcnow() < dt.timedelta(seconds=LEASE)
    for _ in range(3):
        clock.offset += 4
        sweep(app)
    assert get(store, step.id).sends == 2
    assert claim(store, step.id)


def test_a_lease_written_by_a_clock_that_was_wrong_between_two_sweeps_ends_too(
    app: Celery, store: Store, clock: Clock
) -> None:
    sweep(app)
    clock.offset = 3600
    step = held(store)
    clock.offset = 1
    sweep(app)
    assert (get(store, step.id).lease_until or ago(0)) - steps.utcnow() < dt.timedelta(seconds=LEASE)


def test_a_step_due_before_the_clock_was_put_back_stays_due(app: Celery, store: Store, clock: Clock) -> None:
    clock.offset = 3600
    sweep(app)
    step, later = report("IBM"), report("AAPL")
    opened(store, step, later)
    given = claimed(store, later.id)
    with store.session() as session:
        graph.give_back(session, given, 60.0, "overloaded: try later")
    clock.offset = 0
    assert not claim(store, step.id), "its message finds it not due"
    assert sweep(app)["sent"] == 1
    assert claim(store, step.id)
    wait = get(store, later.id).due_at - steps.utcnow()
    assert dt.timedelta(seconds=50) < wait <= dt.timedelta(seconds=61)


def test_clocks_of_hosts_that_differ_a_little_are_no_doubt(store: Store, clock: Clock) -> None:
    look(store)
    clock.offset = -2
    assert look(store) == leases.LeaseTrust(trusted=True)
    clock.offset = 2
    assert look(store) == leases.LeaseTrust(trusted=True)
