"""The policy, the sizes that it goes by, and what a desk at work deletes by itself once a day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations

import pytest

from chordesk.models.database.blobs import keep
from chordesk.models.database.store import Store, core_tables, every_table
from chordesk.models.settings import Settings
from chordesk.models.states import RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, ToolCall
from chordesk.models.tables.runtime import Blob
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.retention import collection
from chordesk.tasks.retention.retention_policy import (
    EVIDENCE,
    LASTING,
    OF_EVENTS,
    OF_THREADS,
    ORDERS,
    RUN,
    SCORES,
    measure,
    policy_of,
)
from tests.builders import a_run, a_step, a_turn
from tests.tasks.events.kit import RedisServer, a_note, opened, write
from tests.tasks.retention.test_runs import kept

PLACES = (RUN, EVIDENCE, SCORES, ORDERS, OF_THREADS, OF_EVENTS, LASTING)


DAY = dt.timedelta(days=1)


def test_each_table_has_one_place() -> None:
    assert frozenset().union(*PLACES) == core_tables().keys()  # features state where theirs are
    assert all(one.isdisjoint(other) for one, other in combinations(PLACES, 2))


def test_nothing_of_the_evidence_is_referred_to_by_what_stays() -> None:
    for name in RUN | SCORES | ORDERS | LASTING:
        targets = {key.column.table.name for key in every_table()[name].foreign_keys}
        assert targets.isdisjoint(EVIDENCE), name


def test_rows_that_refer_to_a_deleted_one_are_found_by_an_index() -> None:
    """The database looks for them before it deletes a row: without an index it reads the whole table, for each."""
    missing = []
    for table in every_table().values():
        leading = {next(iter(index.columns)).name for index in table.indexes}
        keys = (one for one in table.constraints if type(one).__name__ in {"UniqueConstraint", "PrimaryKeyConstraint"})
        leading |= {next(iter(one.columns)).name for one in keys if one.columns}
        for column in table.columns:
            for key in column.foreign_keys:
                if key.column.table.name in RUN | EVIDENCE and column.name not in leading:
                    missing.append(f"{table.name}.{column.name}")
    assert missing == []


def test_zero_keeps_and_the_least_age_is_kept(settings: Settings) -> None:
    now = utcnow()
    off = policy_of(settings.model_copy(update={"keep_run_days": 0.0, "keep_artifact_days": 0.0}), now)
    assert (off.pictures_before, off.runs_before) == (None, None)
    short = policy_of(settings.model_copy(update={"keep_run_days": 0.1, "keep_artifact_days": 0.1}), now)
    assert (short.pictures_before, short.runs_before) == (now - DAY, now - DAY)


def test_an_age_of_the_caller_takes_the_place_of_all(settings: Settings) -> None:
    now = utcnow()
    found = policy_of(settings, now, 7 * DAY)
    ages = {found.events_before, found.threads_before, found.pictures_before, found.runs_before}
    assert ages == {now - 7 * DAY}


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


def test_a_kind_is_measured_over_all_there_are(store: Store, settings: Settings) -> None:
    with store.session() as session:
        run = a_run(session)
        turn = a_turn(session, a_step(session, run, state=StepState.DONE), text="t" * 5000)
        call = {"tool": "quote", "success": True, "has_data": True, "seconds": 0.1}
        session.add_all(ToolCall(turn_id=turn.id, ordinal=size, output="o" * 1000 * size, **call) for size in (1, 3))
        session.add(Blob(digest="d" * 64, data=b"b" * 7000))
    keep(settings.home, b"p" * 400, "image/png")
    keep(settings.home, b"q" * 600, "image/png")
    found = measure(store, settings.home)
    units = {one.name: one for one in found.units}
    calls = units["tool call"]
    assert (calls.count, 2000 < (calls.each or 0) < 2300) == (2, True)
    assert 9000 < (units["turn"].each or 0) < 10_000, "with its tool calls"
    assert 7000 < (units["rollout"].each or 0) < 7200
    assert (units["picture"].count, units["picture"].each) == (2, 500)
    assert (units["screen run"].count, 9000 < (units["screen run"].each or 0) < 12_000) == (1, True)
    assert found.tables[0].name == "turn" or found.tables[0].bytes >= found.tables[1].bytes


def test_events_are_counted_one_by_one(store: Store, settings: Settings) -> None:
    run_id = opened(store)
    write(store, *(a_note(run_id, number) for number in range(99)))
    event = next(one for one in measure(store, settings.home).units if one.name == "event")
    assert event.count == 100
    assert 50 < (event.each or 0) < 1000
