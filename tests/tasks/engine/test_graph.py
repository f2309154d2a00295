"""The graph: workers that act at once, and the sweep's choices by time. Their order is of test_machine."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import threading

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.errors import LeaseLost
from chordesk.models.states import StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Step
from chordesk.tasks.engine import graph, step_queries
from chordesk.tasks.engine.owners import owner_of
from chordesk.tasks.engine.steps import ClaimedStep, NewStep, ReadyStep
from tests.tasks.engine.steps import ago, change, claimed, get, opened, report


def claim(store: Store, step_id: str, owner: str = "a") -> ClaimedStep | None:
    with store.session() as session:
        return graph.claim(session, step_id, owner, 60)


def test_of_many_that_claim_at_once_one_gets_it(store: Store) -> None:
    step = report("AAPL")
    opened(store, step)
    got: list[ClaimedStep | None] = []
    threads = [threading.Thread(target=lambda n=n: got.append(claim(store, step.id, str(n)))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(found is not None for found in got) == 1


def test_an_expired_lease_is_taken_over_and_the_old_owner_can_no_longer_end_it(store: Store) -> None:
    step = report("AAPL")
    opened(store, step)
    old = claimed(store, step.id, "old")
    change(store, Step, step.id, lease_until=ago(1))
    new = claimed(store, step.id, "new")
    assert new.attempt == 2
    with pytest.raises(LeaseLost), store.session() as session:
        graph.finish(session, old, StepState.DONE)
    with store.session() as session:
        graph.finish(session, new, StepState.DONE, result={"by": "new"})
    assert get(store, step.id).result == {"by": "new"}


def test_a_living_worker_of_this_machine_may_be_late_and_a_stopped_one_may_not(store: Store) -> None:
    steps = report("AAPL"), report("MMM")
    opened(store, *steps)
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            mine = owner_of("research")
            late, stopped = (
                claimed(store, step.id, owner, lease=60)
                for step, owner in zip(steps, (mine, mine.replace(f":{os.getpid()}:", f":{other.pid}:")), strict=True)
            )
            other.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, other.pid, os.WSTOPPED | os.WNOWAIT)
            for step in steps:
                change(store, Step, step.id, lease_until=ago(1), sent_at=ago(1), sends=36)
            assert claim(store, late.id, "new") is None
            # A worker that is killed with its next message would cost a quarter of an hour after so many.
            assert (get(store, late.id).sent_at, get(store, late.id).sends) == (None, 0)
            assert claimed(store, stopped.id, "new").attempt == 2
            with store.session() as session:
                assert graph.renew(session, [(late.id, 1)], mine, 60) == {late.id}
            change(store, Step, late.id, lease_until=ago(121))
            assert claimed(store, late.id, "new").attempt == 2
        finally:
            other.kill()


def test_renewing_keeps_a_lease_and_returns_the_lost_ones(store: Store) -> None:
    mine, taken = report("AAPL"), report("MMM")
    opened(store, mine, taken)
    first, second = claimed(store, mine.id, lease=1), claimed(store, taken.id, lease=1)
    change(store, Step, taken.id, owner="b")
    with store.session() as session:
        kept = graph.renew(session, [(first.id, 1), (second.id, 1)], "a", 60)
    assert kept == {mine.id}
    lease = get(store, mine.id).lease_until
    assert lease is not None
    assert lease > utcnow() + dt.timedelta(seconds=30)


def test_children_that_end_at_once_fire_their_join_once(store: Store) -> None:
    children = [report(str(number)) for number in range(16)]
    _, finish = opened(store, *children)
    steps = [claimed(store, child.id) for child in children]
    ready: list[ReadyStep] = []
    start = threading.Barrier(len(steps))

    def end(step: ClaimedStep) -> None:
        start.wait()
        with store.session() as session:
            found = graph.finish(session, step, StepState.DONE)
        ready.extend(found)

    threads = [threading.Thread(target=end, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [step.id for step in ready] == [finish]
    assert get(store, finish).pending == 0


def sweep(store: Store) -> list[str]:
    with store.session() as session:
        return [step.id for step in step_queries.resend(session)]


def test_the_sweep_sends_what_was_lost_and_not_what_was_just_sent(store: Store) -> None:
    step = report("AAPL")
    opened(store, step)
    assert sweep(store) == []
    change(store, Step, step.id, sent_at=ago(step_queries.RESEND_SECONDS + 1))
    assert sweep(store) == [step.id]
    assert sweep(store) == []


def test_a_step_is_unique_in_its_run(store: Store) -> None:
    run, finish = opened(store, report("AAPL"))
    with pytest.raises(IntegrityError), store.session() as session:
        graph.add(session, run.id, [NewStep(StepKind.REPORT, finish, "AAPL", "quick")], 1)
    with store.read() as session:
        assert _pending(session, finish) == 1


def _pending(session: Session, step_id: str) -> int:
    return session.exec(select(Step.pending).where(Step.id == step_id)).one()
