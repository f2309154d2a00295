"""The graph: claims, leases, fenced ends, joins and the sweep's choices, on a real database."""

from __future__ import annotations

import datetime as dt
import threading

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.errors import LeaseLost
from chordesk.models.states import RunState, StepKind, StepState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine import graph, step_queries
from chordesk.tasks.engine.steps import ClaimedStep, NewStep, ReadyStep
from tests.builders import run_row
from tests.tasks.engine.steps import lose


def opened(store: Store, *steps: NewStep, attempts: int = 2) -> tuple[Run, str]:
    """Open a run; its finish step waits for `steps`, which name it as their parent by an empty string."""
    run, finish = run_row(), new_id()
    with store.session() as session:
        graph.open_run(session, run, finish, attempts)
        graph.add(session, run.id, [_under(step, finish) for step in steps], attempts)
    return run, finish


def _under(step: NewStep, finish: str) -> NewStep:
    return (
        step if step.parent else NewStep(step.kind, finish, step.subject, step.role, step.payload, step.waits, step.id)
    )


def report(subject: str, parent: str = "") -> NewStep:
    return NewStep(StepKind.REPORT, parent, subject, "quick")


def claimed(store: Store, step_id: str, owner: str = "a", lease: float = 60) -> ClaimedStep:
    with store.session() as session:
        step = graph.claim(session, step_id, owner, lease)
    assert step is not None
    return step


def claim(store: Store, step_id: str, owner: str = "a") -> ClaimedStep | None:
    with store.session() as session:
        return graph.claim(session, step_id, owner, 60)


def get(store: Store, step_id: str) -> Step:
    with store.read() as session:
        return session.get_one(Step, step_id)


def set_step(store: Store, step_id: str, **values: object) -> None:
    with store.session() as session:
        step = session.get_one(Step, step_id)
        for name, value in values.items():
            setattr(step, name, value)


def ago(seconds: float) -> dt.datetime:
    return utcnow() - dt.timedelta(seconds=seconds)


def test_a_step_is_claimed_once(store: Store) -> None:
    step = report("AAPL")
    opened(store, step)
    first = claimed(store, step.id)
    assert (first.attempt, first.owner) == (1, "a")
    assert get(store, step.id).state == StepState.RUNNING
    assert claim(store, step.id, "b") is None


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
    set_step(store, step.id, lease_until=ago(1))
    new = claimed(store, step.id, "new")
    assert new.attempt == 2
    with pytest.raises(LeaseLost), store.session() as session:
        graph.finish(session, old, StepState.DONE)
    with store.session() as session:
        graph.finish(session, new, StepState.DONE, result={"by": "new"})
    assert get(store, step.id).result == {"by": "new"}


def test_the_same_owner_of_an_earlier_attempt_is_fenced_too(store: Store) -> None:
    step = report("AAPL")
    opened(store, step)
    first = claimed(store, step.id, "a")
    set_step(store, step.id, lease_until=ago(1))
    claimed(store, step.id, "a")
    with pytest.raises(LeaseLost), store.session() as session:
        graph.finish(session, first, StepState.DONE)


def test_a_final_step_and_one_of_an_ended_run_are_not_claimed(store: Store) -> None:
    done, other = report("AAPL"), report("MMM")
    run, _ = opened(store, done, other)
    with store.session() as session:
        step = graph.claim(session, done.id, "a", 60)
        assert step is not None
        graph.finish(session, step, StepState.DONE)
        graph.close_run(session, run.id, RunState.PARTIAL, {}, [])
    assert claim(store, done.id) is None
    assert claim(store, other.id) is None


def test_renewing_keeps_a_lease_and_returns_the_lost_ones(store: Store) -> None:
    mine, taken = report("AAPL"), report("MMM")
    opened(store, mine, taken)
    first, second = claimed(store, mine.id, lease=1), claimed(store, taken.id, lease=1)
    set_step(store, taken.id, owner="b")
    with store.session() as session:
        kept = graph.renew(session, [(first.id, 1), (second.id, 1)], "a", 60)
    assert kept == {mine.id}
    lease = get(store, mine.id).lease_until
    assert lease is not None
    assert lease > utcnow() + dt.timedelta(seconds=30)


def test_the_last_child_makes_the_join_ready_and_no_other_does(store: Store) -> None:
    children = [report(name) for name in ("AAPL", "MMM", "IBM")]
    _, finish = opened(store, *children)
    ready = []
    for child in children:
        step = claimed(store, child.id)
        with store.session() as session:
            ready.append(graph.finish(session, step, StepState.DONE))
    assert [len(found) for found in ready] == [0, 0, 1]
    assert (ready[2][0].id, ready[2][0].kind) == (finish, StepKind.FINISH)
    assert get(store, finish).state == StepState.READY


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


def test_a_step_that_adds_siblings_does_not_fire_their_join_early(store: Store) -> None:
    join = NewStep(StepKind.CONCLUDE, "", "AAPL", waits=True)
    quick = report("AAPL", join.id)
    opened(store, join, quick)
    more = [NewStep(StepKind.REPORT, join.id, "AAPL", role) for role in ("risk", "catalyst")]
    with store.session() as session:
        step = graph.claim(session, quick.id, "a", 60)
        assert step is not None
        ready = graph.finish(session, step, StepState.DONE, children=more)
    assert {found.role for found in ready} == {"risk", "catalyst"}
    assert (get(store, join.id).state, get(store, join.id).pending) == (StepState.WAITING, 2)


def test_an_end_that_cancels_its_siblings_ends_those_that_wait_and_names_those_that_are_held(store: Store) -> None:
    join = NewStep(StepKind.CONCLUDE, "", "AAPL", waits=True)
    roles = ("quick", "risk", "catalyst", "fundamentals")
    steps = {role: NewStep(StepKind.REPORT, join.id, "AAPL", role) for role in roles}
    opened(store, join, *steps.values())
    held = {role: claimed(store, steps[role].id) for role in ("quick", "risk")}
    with store.session() as session:
        assert graph.cancelled(session, [join.id]) == {}
        assert graph.finish(session, held["quick"], StepState.DONE, cancels="not needed") == []
        assert graph.cancelled(session, [join.id, "another"]) == {join.id: "not needed"}
    states = {role: (get(store, step.id).state, get(store, step.id).error) for role, step in steps.items()}
    assert states == {
        "quick": (StepState.DONE, None),
        "risk": (StepState.RUNNING, None),
        "catalyst": (StepState.STOPPED, "not needed"),
        "fundamentals": (StepState.STOPPED, "not needed"),
    }
    assert (get(store, join.id).state, get(store, join.id).pending) == (StepState.WAITING, 1)
    with store.session() as session:
        (ready,) = graph.finish(session, held["risk"], StepState.STOPPED)
    assert (ready.id, get(store, join.id).pending) == (join.id, 0)


def test_an_end_that_cancels_the_last_siblings_frees_the_join(store: Store) -> None:
    join = NewStep(StepKind.CONCLUDE, "", "AAPL", waits=True)
    quick, risk = report("AAPL", join.id), NewStep(StepKind.REPORT, join.id, "AAPL", "risk")
    opened(store, join, quick, risk)
    held = claimed(store, quick.id)
    with store.session() as session:
        (ready,) = graph.finish(session, held, StepState.DONE, cancels="not needed")
    assert (ready.id, get(store, join.id).state) == (join.id, StepState.READY)


def test_an_end_that_fails_half_way_changes_nothing(store: Store) -> None:
    step = report("AAPL")
    _, finish = opened(store, step)
    held = claimed(store, step.id)
    with pytest.raises(RuntimeError), store.session() as session:
        graph.finish(session, held, StepState.DONE)
        raise RuntimeError
    assert get(store, step.id).state == StepState.RUNNING
    assert get(store, finish).pending == 1


def test_given_back_it_waits_out_its_delay(store: Store) -> None:
    step = report("AAPL")
    opened(store, step)
    held = claimed(store, step.id)
    with store.session() as session:
        graph.give_back(session, held, 60, "busy")
    assert claim(store, step.id) is None
    set_step(store, step.id, due_at=ago(1))
    again = claimed(store, step.id)
    assert (again.attempt, get(store, step.id).error) == (2, "busy")


def sweep(store: Store) -> list[str]:
    with store.session() as session:
        return [step.id for step in step_queries.resend(session)]


def test_the_sweep_sends_what_was_lost_and_not_what_was_just_sent(store: Store) -> None:
    step = report("AAPL")
    opened(store, step)
    assert sweep(store) == []
    set_step(store, step.id, sent_at=ago(step_queries.RESEND_SECONDS + 1))
    assert sweep(store) == [step.id]
    assert sweep(store) == []


def test_the_delay_between_sends_doubles(store: Store) -> None:
    step = report("AAPL")
    opened(store, step)
    set_step(store, step.id, sends=3, sent_at=ago(step_queries.RESEND_SECONDS * 4 - 2))
    assert sweep(store) == []
    set_step(store, step.id, sent_at=ago(step_queries.RESEND_SECONDS * 4 + 2))
    assert sweep(store) == [step.id]


def test_the_sweep_takes_up_an_expired_lease_at_once_and_then_waits(store: Store) -> None:
    step = report("AAPL")
    opened(store, step)
    claimed(store, step.id)
    assert sweep(store) == []
    set_step(store, step.id, lease_until=ago(0.5), sent_at=ago(5))
    assert sweep(store) == [step.id]
    assert sweep(store) == []


def test_a_step_that_waits_is_never_sent(store: Store) -> None:
    join = NewStep(StepKind.MERGE, "", waits=True)
    opened(store, join, report("AAPL", join.id))
    set_step(store, join.id, sent_at=ago(10_000))
    assert join.id not in sweep(store)


def test_worn_out_steps_fail_with_the_reason_and_free_their_join(store: Store) -> None:
    lost, tried = report("AAPL"), report("MMM")
    _, finish = opened(store, lost, tried, attempts=1)
    lose(store, lost.id)
    held = claimed(store, tried.id)
    with store.session() as session:
        graph.give_back(session, held, 0, "server_error: 500")
    with store.session() as session:
        freed = step_queries.fail_exhausted(session)
    assert [step.id for step in freed] == [finish]
    assert get(store, lost.id).error == "gave up: 7 workers were lost while they had it"
    assert get(store, tried.id).error == "gave up after 1 attempts: server_error: 500"
    with store.session() as session:
        assert step_queries.fail_exhausted(session) == []


def test_a_run_is_closed_once(store: Store) -> None:
    run, _ = opened(store, report("AAPL"))
    with store.session() as session:
        assert graph.close_run(session, run.id, RunState.PARTIAL, {"turns": 1}, ["late"])
    with store.session() as session:
        assert not graph.close_run(session, run.id, RunState.DONE, {}, [])
    with store.read() as session:
        row = session.get_one(Run, run.id)
    assert (row.state, row.notes, row.summary) == (RunState.PARTIAL, ["late"], {"turns": 1})


def test_a_step_is_unique_in_its_run(store: Store) -> None:
    run, finish = opened(store, report("AAPL"))
    with pytest.raises(IntegrityError), store.session() as session:
        graph.add(session, run.id, [NewStep(StepKind.REPORT, finish, "AAPL", "quick")], 1)
    with store.read() as session:
        assert _pending(session, finish) == 1


def _pending(session: Session, step_id: str) -> int:
    return session.exec(select(Step.pending).where(Step.id == step_id)).one()
