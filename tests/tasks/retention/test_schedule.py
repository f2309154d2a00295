"""Retention that a desk at work does by itself: runs once a day, as far as it gets before its process ends."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing

import pytest

from chordesk.models.states import RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.retention import collection
from tests.builders import a_run
from tests.tasks.events.kit import RedisServer
from tests.tasks.retention.test_runs import kept


@pytest.fixture
def desk(redis_own: RedisServer, settings: object, store: object) -> Iterator[Desk]:
    url = {"redis_url": f"unix://{redis_own.path}"}
    with closing(Desk(type(settings).model_validate({**settings.model_dump(), **url}))) as made:  # type: ignore[attr-defined]
        yield made


def an_old_run(desk: Desk) -> str:
    old = utcnow() - dt.timedelta(days=400)
    with desk.store.session() as session:
        run: Run = a_run(session, state=RunState.DONE, created_at=old, finished_at=old)
        return run.id


def test_runs_are_collected_once_a_day(desk: Desk) -> None:
    an_old_run(desk)
    collection.collect_if_due(desk, with_redis=True)
    assert kept(desk.store) == set()
    second = an_old_run(desk)
    collection.collect_if_due(desk, with_redis=True)
    assert kept(desk.store) == {second}
    assert 0 < desk.redis_client.ttl(collection.RUNS_KEY) <= collection.DAY_SECONDS
    desk.redis_client.delete(collection.RUNS_KEY)
    collection.collect_if_due(desk, with_redis=True)
    assert kept(desk.store) == set()


def test_a_process_that_is_to_end_leaves_the_rest_to_the_next(desk: Desk) -> None:
    left = an_old_run(desk)
    desk.drain.request()
    collection.collect_if_due(desk, with_redis=True)
    assert kept(desk.store) == {left}
    assert desk.redis_client.ttl(collection.RUNS_KEY) == -2


def test_without_redis_runs_are_left_for_later(desk: Desk, redis_own: RedisServer) -> None:
    left = an_old_run(desk)
    redis_own.kill()
    collection.collect_if_due(desk, with_redis=True)
    assert kept(desk.store) == {left}
