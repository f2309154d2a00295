"""Events of runtimes are written in order and before the end of their step; a failed write harms nothing else."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlmodel import select

from chordesk.agents.runtime import ConversationState, Scope
from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import (
    ConversationRef,
    Envelope,
    EventType,
    ItemLifecycle,
    LifecycleStatus,
    RuntimeKind,
    TurnLifecycle,
    event,
)
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import RuntimeConversation, RuntimeItem, RuntimeTurn
from chordesk.tasks.events.recorder import EventBuffer, Recorder
from chordesk.tasks.reading.run_details import conversations
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.events.kit import Undone, a_note, sequences

RUN = "0" * 32
SCOPE = Scope(RUN)
STEP = Scope(RUN, "s1", 1, "quick", "IBM")


@pytest.fixture
def recorder(store: Store) -> Iterator[Recorder]:
    made = Recorder(store)
    yield made
    made.close()


def stored(store: Store, run_id: str = RUN) -> list[Envelope]:
    with store.read() as session:
        return event_log.read(session, run_id, 0, 100_000)


def of_thread(thread: str, number: int) -> Envelope:
    return event(EventType.ITEM_COMPLETED, RUN, thread_id=thread, item_id=str(number), number=number)


def seen(thread: str, step: str, turn: str | None = None, closed_at: dt.datetime | None = None) -> ConversationState:
    ref = ConversationRef(run_id=RUN, runtime_kind=RuntimeKind.CODEX, thread_id=thread, active_turn_id=turn)
    scope = Scope(RUN, step, 1, "quick", "IBM")
    return ConversationState(f"c-{thread}", ref, scope, "initial", False, "w", utcnow(), closed_at)


def opened(recorder: Recorder, state: ConversationState) -> None:
    recorder.record(state.scope, [], [state])


def test_the_end_of_a_step_takes_its_events(store: Store) -> None:
    """No thread of its own writes here: what the step does not take is written by `close`."""
    recorder = Recorder(store)
    recorder._thread = threading.Thread()  # as if it were busy with something else
    started = event(EventType.STATUS_STARTED, RUN, step="s1")
    recorder.record(STEP, [started, of_thread("t1", 1)])
    recorder.record(Scope(RUN, "s2"), [of_thread("t2", 2)])
    recorder.record(STEP, [of_thread("t1", 3)])
    with recorder.taken("s1") as events:
        assert events[0] == started
        assert [one.payload.get("number") for one in events] == [None, 1, 3]
    with recorder.taken("s1") as events:
        assert events == []
    with recorder.taken("s2") as events:
        assert [one.payload["number"] for one in events] == [2]
    assert recorder._buffer.count == 0


def test_events_that_could_not_be_written_with_the_step_are_written_alone(store: Store, recorder: Recorder) -> None:
    with pytest.raises(Undone):
        recorder.record(STEP, [of_thread("t1", 1), of_thread("t1", 2)])
        with recorder.taken("s1"):
            raise Undone
    wait_for(lambda: len(stored(store)) == 2, "both are written")
    assert [one.payload["number"] for one in stored(store)] == [1, 2]


def test_nothing_overtakes_what_is_on_its_way(store: Store) -> None:
    """The recorder's own transaction is under way when the step ends: the step waits for its commit."""
    recorder, committed, go_on = Recorder(store), threading.Event(), threading.Event()
    store.on_commit.append(lambda _: (committed.set(), go_on.wait(PATIENCE)))  # type: ignore[arg-type,func-returns-value]
    recorder.record(STEP, [of_thread("t1", 1)])
    assert committed.wait(PATIENCE)
    recorder.record(STEP, [of_thread("t1", 2)])
    threading.Timer(0.3, go_on.set).start()
    with recorder.taken("s1") as events:
        assert go_on.is_set()
    with store.session() as session:
        event_log.append(session, [*events, event(EventType.STATUS_ENDED, RUN, step="s1")])
    recorder.close()
    assert [one.payload.get("number") for one in stored(store)] == [1, 2, None]


def test_a_step_that_ends_does_not_wait_until_the_recorder_may_write(store: Store, recorder: Recorder) -> None:
    with store.session():  # the only writer: the recorder waits for it
        recorder.record(STEP, [of_thread("t1", 1)])
        time.sleep(0.3)
        with recorder.taken("s1") as events:
            assert [one.payload["number"] for one in events] == [1]


def test_the_last_state_of_each_lifecycle_is_kept(store: Store, recorder: Recorder) -> None:
    now = utcnow()
    turn = TurnLifecycle(turn_id="u", thread_id="t", status=LifecycleStatus.IN_PROGRESS, started_at=now)
    item = ItemLifecycle(
        item_id="i", turn_id="u", thread_id="t", type="agentMessage", status=LifecycleStatus.IN_PROGRESS, started_at=now
    )
    opened(recorder, seen("t", "s", "u"))
    recorder.record(SCOPE, [], [turn])
    recorder.record(SCOPE, [], [item])

    def rows() -> tuple[list[RuntimeConversation], list[RuntimeTurn], list[RuntimeItem]]:
        with store.read() as session:
            return (
                list(session.exec(select(RuntimeConversation)).all()),
                list(session.exec(select(RuntimeTurn)).all()),
                list(session.exec(select(RuntimeItem)).all()),
            )

    wait_for(lambda: all(rows()), "the first word is written")
    assert rows()[0][0].active_turn_id == "u"
    done = {"status": LifecycleStatus.COMPLETED, "ended_at": now + dt.timedelta(seconds=1)}
    recorder.record(SCOPE, [], [turn.model_copy(update=done)])
    recorder.record(SCOPE, [], [item.model_copy(update=done)])
    opened(recorder, seen("t", "s", None, now))
    recorder.close()
    (conversation,), (a_turn,), (an_item,) = rows()
    assert (conversation.active_turn_id, conversation.closed_at, conversation.role, conversation.subject) == (
        None,
        now,
        "quick",
        "IBM",
    )
    for row in (a_turn, an_item):
        assert (row.run_id, row.status, row.started_at, row.ended_at) == (RUN, "completed", now, done["ended_at"])
    with store.read() as session:
        (ref,) = conversations(session, RUN)
    assert (ref.thread_id, ref.runtime_kind, ref.active_turn_id) == ("t", RuntimeKind.CODEX, None)


def test_a_database_that_is_away_loses_nothing_and_leaves_no_gap(store: Store, recorder: Recorder) -> None:
    def rename(old: str, new: str) -> None:
        with store.session() as session:
            session.connection().exec_driver_sql(f"alter table {old} rename to {new}")

    rename("event_batch", "away")
    opened(recorder, seen("t", "s"))
    for number in range(10):
        recorder.record(SCOPE, [a_note(RUN, number)])
    wait_for(lambda: recorder._away, "it is noticed")
    rename("away", "event_batch")
    wait_for(lambda: len(stored(store)) == 10, "all are written")
    recorder.close()
    assert [(one.sequence, one.payload["number"]) for one in stored(store)] == [(n + 1, n) for n in range(10)]
    with store.read() as session:
        assert len(conversations(session, RUN)) == 1


def test_more_than_it_holds_is_left_out_and_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chordesk.tasks.events.recorder.QUEUED_MOST", 5)
    recorder = Recorder(store)
    with store.session():
        recorder.record(SCOPE, [a_note(RUN, 0)])
        recorder.record(SCOPE, [a_note(RUN, number) for number in range(1, 9)])
    recorder.close()
    assert recorder.dropped == 4
    assert [one.payload["number"] for one in stored(store)] == [0, 1, 2, 3, 4]
    assert sequences(stored(store)) == [1, 2, 3, 4, 5]


def test_a_newer_row_is_kept_when_an_older_one_is_put_back() -> None:
    buffer, now = EventBuffer(), utcnow()
    turn = TurnLifecycle(turn_id="u", thread_id="t", status=LifecycleStatus.IN_PROGRESS, started_at=now)
    buffer.add(SCOPE, [], [turn])
    older = buffer.take()
    buffer.add(SCOPE, [], [turn.ended(LifecycleStatus.COMPLETED, now)])
    buffer.put_back(older)
    assert [row["status"] for row in buffer.take().rows.values()] == ["completed"]


def test_an_event_that_can_never_be_written_stops_nothing(store: Store, recorder: Recorder) -> None:
    recorder.record(SCOPE, [event(EventType.ITEM_COMPLETED, RUN, text=object())])
    wait_for(lambda: recorder.dropped == 1, "it is left out")
    recorder.record(SCOPE, [a_note(RUN, 1)])
    recorder.close()
    assert sequences(stored(store)) == [1]


def test_an_event_that_the_database_refuses_is_left_out_alone(store: Store) -> None:
    """As Postgres refuses a NUL in a lifecycle, which is no reason to wait until it is back."""
    refuse = "create trigger {0} before insert on {0} when {1} like '%wrong%' begin select raise(abort, 'no'); end"
    with store.session() as session:
        for table, column in (("event_batch", "new.events"), ("runtime_item", "new.item_id")):
            session.connection().execute(text(refuse.format(table, column)))
    recorder, now = Recorder(store), utcnow()
    for item in ("first", "wrong", "last"):
        recorder.record(SCOPE, [event(EventType.ITEM_COMPLETED, RUN, item_id=item)])
        row = ItemLifecycle(
            item_id=item, turn_id="u", thread_id="t", type="tool", status=LifecycleStatus.COMPLETED, started_at=now
        )
        recorder.record(SCOPE, [], [row])
    recorder.close()
    assert [one.item_id for one in stored(store)] == ["first", "last"]
    with store.read() as session:
        assert {row.item_id for row in session.exec(select(RuntimeItem))} == {"first", "last"}
    assert recorder.dropped == 1


def test_events_recorded_during_a_write_are_written_although_it_is_closed_then(
    store: Store, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, recorded = recorder._write, threading.Event()

    def recorded_after_writing() -> Exception | None:
        lost = write()
        if not recorded.is_set():
            recorder.record(SCOPE, [a_note(RUN, 2)])
            recorder._closing.set()
            recorded.set()
        return lost

    monkeypatch.setattr(recorder, "_write", recorded_after_writing)
    recorder.record(SCOPE, [a_note(RUN, 1)])
    assert recorded.wait(PATIENCE)
    recorder.close()
    assert sequences(stored(store)) == [1, 2]
