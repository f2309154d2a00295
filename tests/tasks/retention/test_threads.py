"""Deletion of threads and its limits, over a real Redis and the real rows."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from celery import Celery
from kombu import pools
from sqlalchemy import update
from sqlmodel import select

from chordesk.agents.codex.rollouts import digest_of
from chordesk.agents.codex.threads import ThreadRegistry
from chordesk.agents.runtime import ROLLOUT_DAYS, ThreadRecord
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Blob, KeptThread, Rollout
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import leases
from chordesk.tasks.retention import old_files as retention
from chordesk.tasks.retention.old_files import Collected
from chordesk.tasks.retention.retention_policy import policy_of
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.maintenance import sweep_if_due
from tests.databases import make_database

DATABASE = 10  # of the Redis that tests share; nothing else uses it
PATH = "sessions/2026/01/02/rollout-x.jsonl"


@pytest.fixture
def client(redis_server: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(f"{redis_server}?db={DATABASE}") as found:
        found.flushdb()
        yield found
        found.flushdb()


@pytest.fixture
def app(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    client: redis.Redis,
    redis_server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Celery]:
    monkeypatch.setattr(leases, "SWEEP_SECONDS", 0.01)
    environ = {
        "DESK_HOME": str(tmp_path), "DESK_REDIS_URL": f"{redis_server}?db={DATABASE}",
        **{name: value.format(tmp_path) for name, value in getattr(request, "param", {}).items()},
    }  # fmt: skip
    settings = load_settings(environ, tmp_path)
    make_database(settings.database)
    made = create_app(settings, "sweeper")
    yield made
    made.desk.close()
    made.close()
    pools.reset()


@pytest.fixture
def desk(app: Celery) -> Desk:
    return app.desk


def collect(desk: Desk, now: dt.datetime) -> Collected:
    """Collect by the settings; the bytes are those of blobs alone."""
    done = retention.collect_threads(desk, policy_of(desk.settings, now))
    assert (done.bytes > 0) == (done.blobs > 0)
    return replace(done, bytes=0)


def copy_of(thread_id: str, generation: int) -> bytes:
    return f"{thread_id} {generation}".encode()


def a_thread(desk: Desk, client: redis.Redis, thread_id: str, generations: int, *, at: int | None = None) -> None:
    """A thread of `generations` turns; the registry stands at the last one, or at `at`."""
    for number in range(1, generations + 1):
        data = copy_of(thread_id, number)
        desk.vault.put(
            KeptThread(
                thread_id=thread_id, role="risk", subject=thread_id.upper(), mode="legacy", model="m",
                reason="initial", worker="a@host",
            ),
            Rollout(
                thread_id=thread_id, generation=number, token=number, digest=digest_of(data), path=PATH,
                size=len(data), turns=number, record="{}",
            ),
            data,
        )  # fmt: skip
    stands = at or generations
    record = ThreadRecord(
        thread_id=thread_id, generation=stands, token=stands, turns=stands, last_turn_id=None, created_at=1.0,
        updated_at=utcnow().timestamp(), reason="resumed", toolset_hash="h", binary_version="1", home="h", model="m",
        rollout_path=PATH, rollout_digest=digest_of(copy_of(thread_id, stands)), rollout_size=9,
    )  # fmt: skip
    client.set(key(thread_id), record.model_dump_json())


def key(thread_id: str) -> str:
    return f"desk:thread:risk:{thread_id.upper()}"


def age(desk: Desk, client: redis.Redis, thread_id: str, days: float) -> None:
    """Lets a thread's copies and its record have been made so long ago."""
    then = utcnow() - dt.timedelta(days=days)
    with desk.store.session() as session:
        session.connection().execute(update(Rollout).where(Rollout.thread_id == thread_id).values(created_at=then))
    raw = client.get(key(thread_id))
    assert isinstance(raw, bytes)
    record = ThreadRecord.model_validate_json(raw).model_copy(update={"updated_at": then.timestamp()})
    client.set(key(thread_id), record.model_dump_json())


def left(desk: Desk) -> list[tuple[str, int]]:
    with desk.store.read() as session:
        rows = session.exec(select(Rollout.thread_id, Rollout.generation)).all()
    return sorted((thread_id, generation) for thread_id, generation in rows)


def blobs(desk: Desk) -> set[str]:
    with desk.store.read() as session:
        return set(session.exec(select(Blob.digest)).all())


def later(**span: float) -> dt.datetime:
    return utcnow() + dt.timedelta(**span)


def test_the_newest_copies_of_each_thread_stay(desk: Desk, client: redis.Redis) -> None:
    a_thread(desk, client, "t1", 5)
    a_thread(desk, client, "t2", 1)
    assert collect(desk, utcnow()) == Collected(rollouts=3), "the blobs are too young to be deleted"
    assert left(desk) == [("t1", 4), ("t1", 5), ("t2", 1)]
    assert collect(desk, later(hours=2)) == Collected(blobs=3)
    assert blobs(desk) == {digest_of(copy_of(*row)) for row in left(desk)}
    assert collect(desk, later(hours=3)) == Collected()


def test_the_copy_that_the_registry_means_stays(desk: Desk, client: redis.Redis) -> None:
    """Workers that put copies and died before they could move the registry on leave newer ones than it knows."""
    a_thread(desk, client, "t1", 6, at=2)
    assert collect(desk, later(hours=2)) == Collected(rollouts=3, blobs=3)
    assert left(desk) == [("t1", 2), ("t1", 5), ("t1", 6)]
    assert digest_of(copy_of("t1", 2)) in blobs(desk)


def test_a_thread_not_used_for_long_is_forgotten(desk: Desk, client: redis.Redis) -> None:
    a_thread(desk, client, "old", 2)
    a_thread(desk, client, "new", 2)
    age(desk, client, "old", ROLLOUT_DAYS + 1)
    counted = retention.due_threads(desk, policy_of(desk.settings, later(hours=2)))
    assert len(left(desk)) == 4, "a count changes nothing"
    assert collect(desk, later(hours=2)) == replace(counted, bytes=0) == Collected(threads=1, rollouts=2, blobs=2)
    assert left(desk) == [("new", 1), ("new", 2)]
    assert (client.exists(key("old")), client.exists(key("new"))) == (0, 1)
    with desk.store.read() as session:
        assert {row.thread_id for row in session.exec(select(KeptThread)).all()} == {"old", "new"}, "lineage stays"
    collect(desk, later(days=400))
    with desk.store.read() as session:
        assert session.exec(select(KeptThread)).all() == [], "as long as a run might"


def test_an_old_thread_of_a_subject_goes_without_the_one_that_took_its_place(desk: Desk, client: redis.Redis) -> None:
    a_thread(desk, client, "t1", 1)
    age(desk, client, "t1", 30)
    raw = client.get(key("t1"))
    assert isinstance(raw, bytes)
    now = ThreadRecord.model_validate_json(raw).model_copy(
        update={"thread_id": "t2", "updated_at": utcnow().timestamp(), "rollout_digest": None}
    )
    client.set(key("t1"), now.model_dump_json())
    assert collect(desk, utcnow()).rollouts == 1
    assert client.exists(key("t1")) == 1


def test_a_thread_in_use_is_left_alone(desk: Desk, client: redis.Redis, redis_server: str) -> None:
    a_thread(desk, client, "t1", 5)
    a_thread(desk, client, "t2", 5)

    async def work() -> None:
        mine = redis.asyncio.from_url(f"{redis_server}?db={DATABASE}")
        async with ThreadRegistry(mine, 20).hold("risk", "T1", lambda: 0) as lease:
            assert lease.held
            assert await asyncio.to_thread(collect, desk, later(days=30)) == Collected(1, 5, 5, busy=1)
        await mine.aclose()

    asyncio.run(work())
    assert left(desk) == [("t1", number) for number in range(1, 6)]
    assert client.exists(key("t1")) == 1


def swept(app: Celery) -> None:
    """A sweep; one that comes too soon after the last does nothing."""
    while not sweep_if_due(app):
        time.sleep(0.01)


def test_the_sweep_collects_once_a_day(app: Celery, desk: Desk, client: redis.Redis) -> None:
    a_thread(desk, client, "t1", 3)
    swept(app)
    assert left(desk) == [("t1", 2), ("t1", 3)]
    a_thread(desk, client, "t1", 3)
    swept(app)
    assert left(desk) == [("t1", 1), ("t1", 2), ("t1", 3)]
    assert 0 < client.ttl(retention.DAILY_KEY) <= retention.DAY_SECONDS
    client.delete(retention.DAILY_KEY)
    swept(app)
    assert left(desk) == [("t1", 2), ("t1", 3)]
