"""Sweeps: one at a time, which steps they send, and what they do without Redis or after it has lost its messages."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import redis
from celery import Celery

from chordesk.models.database.store import Store
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step, Sweep
from chordesk.tasks.engine import graph, leases, step_queries
from chordesk.tasks.engine.steps import NewStep, ReadyStep
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.dispatch import send
from chordesk.tasks.worker.maintenance import sweep_if_due
from tests.tasks.engine import steps
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


NOTHING = {"sent": 0, "freed": 0, "closed": 0}


def take(store: Store, owner: str, rest: float = 0.0) -> bool:
    with store.session() as session:
        return leases.claim_sweep(session, owner, 5.0, rest) is not None


def leave(store: Store, owner: str) -> bool:
    with store.session() as session:
        return leases.release_sweep(session, owner, {"sent": 2}, "mark", utcnow())


def test_of_many_that_ask_at_once_one_sweeps(store: Store) -> None:
    got: list[bool] = []
    threads = [threading.Thread(target=lambda n=n: got.append(take(store, str(n)))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 11 + [True]


def test_the_next_one_rests_first(store: Store) -> None:
    assert take(store, "a")
    assert not take(store, "b")
    assert leave(store, "a")
    assert not take(store, "b", rest=60)
    assert take(store, "b")
    row = steps.sweep_row(store)
    assert (row.owner, row.found, row.redis_mark) == ("b", {"sent": 2}, "mark")


def test_a_killed_sweeper_holds_the_row_no_longer_than_its_lease(store: Store) -> None:
    assert take(store, "killed")
    change(store, Sweep, 1, lease_until=ago(0.1))
    assert take(store, "b")
    assert not leave(store, "killed")
    assert steps.sweep_row(store).owner == "b"


def test_a_clock_that_was_put_back_stops_no_sweep(store: Store) -> None:
    ahead = utcnow() + dt.timedelta(hours=1)
    change(store, Sweep, 1, lease_until=ahead, last_at=ahead)
    assert take(store, "a", rest=60)


def rested(store: Store) -> None:
    change(store, Sweep, 1, last_at=ago(60))


def test_messages_that_a_flushed_redis_lost_are_sent_by_the_next_sweep(
    app: Celery, store: Store, client: redis.Redis
) -> None:
    step = report("IBM")
    opened(store, step)
    assert sweep_if_due(app) == NOTHING
    rested(store)
    assert sweep_if_due(app) == NOTHING, "Redis has lost nothing"
    client.flushdb()
    rested(store)
    assert sweep_if_due(app) == {**NOTHING, "sent": 1}
    assert client.llen("research") == 1
    rested(store)
    assert sweep_if_due(app) == NOTHING
    assert get(store, step.id).sends == 1


def test_without_redis_the_sweep_still_closes_and_the_mark_is_kept(app: Celery, store: Store) -> None:
    opened(store, report("IBM"))
    sweep_if_due(app)
    mark = steps.sweep_row(store).redis_mark
    assert mark
    rested(store)
    app.desk.redis_client.connection_pool.connection_kwargs["path"] = "/nowhere/redis.sock"
    app.desk.redis_client.close()
    app.desk.redis_client.connection_pool.disconnect()
    assert sweep_if_due(app) == NOTHING
    assert steps.sweep_row(store).redis_mark == mark


def test_without_redis_nothing_is_marked_as_sent(tmp_path: Path, store: Store) -> None:
    environ = {"DESK_HOME": str(tmp_path), "DESK_REDIS_URL": f"unix://{tmp_path}/nobody.sock"}
    app = create_app(load_settings(environ, tmp_path), "alone")
    step, other = report("IBM"), report("AAPL")
    opened(store, step, other)
    change(store, Step, step.id, sends=4)
    send(app, [ReadyStep(step.id, step.kind, step.role, None, step.subject)])
    assert (get(store, step.id).sent_at, get(store, step.id).sends) == (None, 0)
    assert get(store, other.id).sent_at is not None
    app.desk.close()
    app.close()
