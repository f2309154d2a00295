"""One sweep at a time, and the sweep after Redis has lost its messages."""

from __future__ import annotations

import datetime as dt
import threading

import redis
from celery import Celery

from chordesk.models.database.store import Store
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Step, Sweep
from chordesk.tasks.engine import leases
from chordesk.tasks.worker.maintenance import sweep_if_due
from tests.tasks.engine import steps
from tests.tasks.engine.steps import ago, change, get, opened, report

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


def test_the_sweep_leaves_what_it_found(app: Celery, store: Store) -> None:
    step = report("IBM")
    opened(store, step)
    change(store, Step, step.id, sent_at=None)
    assert sweep_if_due(app) == {**NOTHING, "sent": 1}
    row = steps.sweep_row(store)
    assert row.found == {**NOTHING, "sent": 1}
    assert (row.owner, row.lease_until) == (None, None)
    assert row.last_at is not None
    assert (utcnow() - row.last_at).total_seconds() < 5
    assert sweep_if_due(app) == {}, "it has just been"


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
