"""Trimming of events, and the errors that readers get for trimmed ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
import redis
from sqlmodel import select

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import HistoryTrimmed
from chordesk.models.events import DESK, EventType, event
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import EventBatch, EventHead, RuntimeConversation, RuntimeItem, RuntimeTurn
from chordesk.tasks.retention import event_trimming as retention
from chordesk.tasks.retention import retention_policy
from chordesk.tasks.retention.event_trimming import trim_hourly
from chordesk.tasks.retention.retention_policy import Amount, policy_of
from tests.tasks.events.kit import RedisServer, a_note, ended, opened, sequences, write

DAY = dt.timedelta(days=1)


def trim(store: Store, settings: Settings, now: dt.datetime) -> int:
    """Trim by the settings, and return how many events; it deletes what it had counted before."""
    policy = policy_of(settings, now)
    counted, done = retention.due(store, policy), retention.trim(store, policy)
    due, went = (one.get(retention.EVENTS, Amount()) for one in (counted, done))
    assert (due.rows, due.bytes) <= (went.rows, went.bytes), "up to the batch that a limit falls into"
    assert retention.EVENTS not in retention.due(store, policy)
    return went.rows


def ended_before(store: Store, days: float) -> str:
    """A run of four events that ended so long ago."""
    run_id = opened(store)
    write(store, a_note(run_id, 1), a_note(run_id, 2))
    ended(store, run_id)
    at = utcnow() - days * DAY
    with store.session() as session:
        session.get_one(Run, run_id).finished_at = at
        session.get_one(EventHead, run_id).updated_at = at
        lived = {"run_id": run_id, "thread_id": "t", "turn_id": f"u-{run_id}", "status": "completed", "started_at": at}
        session.add(RuntimeTurn(**lived))
        session.add(RuntimeItem(**lived, item_id="i", type="agentMessage"))
        conversation = {"run_id": run_id, "step_id": "s", "role": "quick", "subject": "IBM", "runtime_kind": "codex"}
        session.add(RuntimeConversation(**conversation, thread_id="t", thread_reason="initial", kept=False, worker="w"))
    return run_id


def left(store: Store, run_id: str) -> list[int | None]:
    """Return the events of a run after its trimmed ones."""
    with store.read() as session:
        trimmed, _ = event_log.head(session, run_id)
        return sequences(event_log.read(session, run_id, trimmed, 100_000))


def test_runs_that_ended_long_ago_lose_their_events_and_keep_their_manifest(store: Store, settings: Settings) -> None:
    old, new, going = ended_before(store, 31), ended_before(store, 29), opened(store)
    assert trim(store, settings, utcnow()) == 4
    assert (left(store, old), left(store, new), left(store, going)) == ([], [1, 2, 3, 4], [1])
    with store.read() as session:
        with pytest.raises(HistoryTrimmed, match="gone up to 4"):
            event_log.read(session, old, 0, 1)
        for model in (RuntimeTurn, RuntimeItem):
            assert [row.run_id for row in session.exec(select(model)).all()] == [new]  # type: ignore[attr-defined]
        assert {row.run_id for row in session.exec(select(RuntimeConversation)).all()} == {old, new}
    assert trim(store, settings, utcnow()) == 0


def test_a_late_event_of_an_old_run_is_kept_its_time(store: Store, settings: Settings) -> None:
    run_id = ended_before(store, 31)
    trim(store, settings, utcnow())
    write(store, event(EventType.ORDER_FILL, run_id, order="late"))
    assert trim(store, settings, utcnow()) == 0
    assert left(store, run_id) == [5]


def test_of_a_long_run_the_newest_are_kept(store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it goes on; a chunk a transaction."""
    monkeypatch.setattr(retention, "CHUNK", 30)
    run_id = opened(store)
    write(store, *(a_note(run_id, number) for number in range(249)))
    monkeypatch.setattr(retention_policy, "EVENTS_PER_RUN", 100)
    assert trim(store, settings, utcnow()) == 150
    assert left(store, run_id) == list(range(151, 251))
    assert trim(store, settings, utcnow()) == 0
    write(store, a_note(run_id, 250))
    assert trim(store, settings, utcnow()) == 1
    with store.read() as session:
        # The row of a batch goes with the last of its events: 142 to 161, of which ten are trimmed, is one.
        assert min(session.exec(select(EventBatch.first)).all()) == 142


def test_events_outside_any_run_go_by_their_own_age(store: Store, settings: Settings) -> None:
    old = event(EventType.ORDER_TRADING, DESK).model_copy(update={"occurred_at": utcnow() - 31 * DAY})
    write(store, old, old)
    write(store, event(EventType.ORDER_TRADING, DESK))
    assert trim(store, settings, utcnow()) == 2
    assert left(store, DESK) == [3]
    assert trim(store, settings, utcnow()) == 0


def test_lifecycles_go_with_or_without_events_and_those_of_no_run_by_their_age(
    store: Store, settings: Settings
) -> None:
    """The events of the old run were trimmed before, by a trim that was cut short."""
    old, new = ended_before(store, 31), ended_before(store, 29)
    with store.session() as session:
        event_log.trim(session, old, 4)
        for days in (31, 29):
            ask = {"run_id": DESK, "thread_id": "t", "turn_id": f"ask-{days}", "status": "completed"}
            at = utcnow() - days * DAY
            session.add(RuntimeTurn(**ask, started_at=at, ended_at=at))
            session.add(RuntimeItem(**ask, started_at=at, ended_at=at, item_id="i", type="agentMessage"))
    assert trim(store, settings, utcnow()) == 0
    with store.read() as session:
        for model in (RuntimeTurn, RuntimeItem):
            found = {row.turn_id for row in session.exec(select(model)).all()}  # type: ignore[attr-defined]
            assert found == {f"u-{new}", "ask-29"}


class TestHourly:
    @pytest.fixture
    def client(self, redis_own: RedisServer) -> Iterator[redis.Redis]:
        with redis.Redis.from_url(redis_own.url, retry=None) as found:
            yield found

    def test_it_is_done_once_an_hour(self, store: Store, settings: Settings, client: redis.Redis) -> None:
        first = ended_before(store, 31)
        trim_hourly(client, store, settings, utcnow())
        second = ended_before(store, 31)
        trim_hourly(client, store, settings, utcnow())
        assert (left(store, first), left(store, second)) == ([], [1, 2, 3, 4])
        assert 0 < client.ttl(retention.HOURLY_KEY) <= retention.HOUR_SECONDS
        client.delete(retention.HOURLY_KEY)
        trim_hourly(client, store, settings, utcnow())
        assert left(store, second) == []
