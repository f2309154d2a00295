"""The sweep's choice of steps, beyond the graph's own tests."""

from __future__ import annotations

from chordesk.models.database.store import Store
from chordesk.models.states import RunState, StepKind, StepState
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine import graph, step_queries
from chordesk.tasks.engine.steps import NewStep
from tests.tasks.engine.steps import ago, change, claimed, get, opened, report


def resent(store: Store, limit: int = 500) -> set[str]:
    with store.session() as session:
        return {step.id for step in step_queries.resend(session, limit)}


def test_a_long_queue_does_not_hide_what_was_lost_behind_it(store: Store) -> None:
    queued = [report(f"Q{number}") for number in range(5)]
    lost = report("LOST")
    opened(store, *queued, lost)
    claimed(store, lost.id)
    change(store, Step, lost.id, lease_until=ago(1), sent_at=ago(9))
    assert resent(store, limit=3) == {lost.id}


def test_sends_are_ever_further_apart_and_never_stop(store: Store) -> None:
    step = report("IBM")
    opened(store, step)
    change(store, Step, step.id, sends=50, sent_at=ago(step_queries.RESEND_SECONDS * 64 - 5))
    assert resent(store) == set()
    change(store, Step, step.id, sent_at=ago(step_queries.RESEND_SECONDS * 64 + 5))
    assert resent(store) == {step.id}


def test_a_step_without_attempts_left_is_not_sent(store: Store) -> None:
    step = report("IBM")
    opened(store, step)
    change(store, Step, step.id, attempt=3, max_attempts=3, sent_at=None)
    assert resent(store) == set()


def test_a_join_waits_less_than_a_turn(store: Store) -> None:
    """A chord that lost its count never sends its conclusion."""
    _, join, child = joined(store)
    held = claimed(store, child)
    with store.session() as session:
        graph.finish(session, held, StepState.DONE)
    assert resent(store) == set()
    change(store, Step, join, sent_at=ago(step_queries.JOIN_RESEND_SECONDS + 1))
    assert resent(store) == {join}
    other = report("AAPL")
    opened(store, other)
    change(store, Step, other.id, sent_at=ago(step_queries.JOIN_RESEND_SECONDS + 1))
    assert resent(store) == set()


def test_a_step_noted_as_unsent_is_sent_by_the_next_sweep(store: Store) -> None:
    one, other, running = report("IBM"), report("AAPL"), report("MMM")
    opened(store, one, other, running)
    claimed(store, running.id)
    with store.session() as session:
        assert step_queries.mark_unsent(session, [one.id]) == 1
    assert resent(store) == {one.id}
    with store.session() as session:
        assert step_queries.mark_unsent(session) == 3
    assert resent(store) == {one.id, other.id}, "what is held is not sent"


def joined(store: Store) -> tuple[Run, str, str]:
    join = NewStep(StepKind.CONCLUDE, "", "IBM", waits=True)
    child = report("IBM", join.id)
    run, _ = opened(store, join, child)
    return run, join.id, child.id


def fired(store: Store) -> list[str]:
    with store.session() as session:
        return [step.id for step in step_queries.fire_joins(session)]


def test_a_join_with_a_wrong_count_is_sent_once_its_children_are_final(store: Store) -> None:
    _, join, child = joined(store)
    change(store, Step, join, pending=3)
    assert fired(store) == []
    held = claimed(store, child)
    assert fired(store) == []
    with store.session() as session:
        graph.finish(session, held, StepState.DONE)
    assert get(store, join).state == StepState.WAITING
    assert fired(store) == [join]
    found = get(store, join)
    assert (found.state, found.pending, found.sends) == (StepState.READY, 0, 1)
    assert fired(store) == []


def test_joins_of_an_ended_run_are_left_alone(store: Store) -> None:
    run, join, child = joined(store)
    change(store, Step, join, pending=3)
    change(store, Step, child, state=StepState.DONE)
    with store.session() as session:
        graph.close_run(session, run.id, RunState.PARTIAL, {}, [])
    assert fired(store) == []
