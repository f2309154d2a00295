"""What runtimes tell is written down: in order, before the end of its step, and without harm when it cannot be."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlmodel import select
from structlog.testing import capture_logs

from agents.codex.observer import ConversationSeen, Observer
from agents.codex.spec import Scope
from models import event_log
from models.columns import utcnow
from models.event_tables import Conversation, RuntimeItem, RuntimeTurn
from models.events import Envelope, EventType, event
from models.lifecycle import ConversationRef, ItemLifecycle, LifecycleStatus, RuntimeKind, TurnLifecycle
from models.store import Store
from tasks.conversations import conversations
from tasks.events.heard import Heard
from tasks.events.recorder import Recorder
from tests.stack import wait_for
from tests.tasks.events.kit import Undone, a_note, sequences

RUN = "0" * 32


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


def seen(thread: str, step: str, turn: str | None = None, closed_at: dt.datetime | None = None) -> ConversationSeen:
    ref = ConversationRef(run_id=RUN, runtime_kind=RuntimeKind.CODEX, thread_id=thread, active_turn_id=turn)
    scope = Scope(RUN, step, 1, "quick", "IBM")
    return ConversationSeen(f"c-{thread}", ref, scope, "initial", False, "w", utcnow(), closed_at)


def test_events_are_written_soon_in_the_order_in_which_they_were_told(store: Store, recorder: Recorder) -> None:
    for number in range(100):
        recorder.events([a_note(RUN, number)])
    wait_for(lambda: len(stored(store)) == 100, "all are written")
    assert [one.payload["number"] for one in stored(store)] == list(range(100))


def test_the_end_of_a_step_takes_what_is_its_own_along(store: Store) -> None:
    """No thread of its own writes here: what the step does not take is written by `close`."""
    recorder = Recorder(store)
    recorder._inbox._thread = object()  # type: ignore[assignment]  # as if it were busy with something else
    recorder.conversation(seen("t1", "s1"))
    recorder.conversation(seen("t2", "s2"))
    started = event(EventType.STATUS_STARTED, RUN, step="s1")
    recorder.events([started, of_thread("t1", 1), of_thread("t2", 2), of_thread("t1", 3)])
    with recorder.taken("s1") as events:
        assert events[0] == started
        assert [one.payload.get("number") for one in events] == [None, 1, 3]
    with recorder.taken("s1") as events:
        assert events == []
    with recorder.taken("s2") as events:
        assert [one.payload["number"] for one in events] == [2]


def test_what_could_not_be_written_with_the_step_is_written_by_itself(store: Store, recorder: Recorder) -> None:
    recorder.conversation(seen("t1", "s1"))
    with pytest.raises(Undone):
        recorder.events([of_thread("t1", 1), of_thread("t1", 2)])
        with recorder.taken("s1"):
            raise Undone
    wait_for(lambda: len(stored(store)) == 2, "both are written")
    assert [one.payload["number"] for one in stored(store)] == [1, 2]


def test_nothing_overtakes_what_is_on_its_way(store: Store) -> None:
    """The recorder's own transaction is under way when the step ends: the step waits for its commit."""
    recorder, committed, go_on = Recorder(store), threading.Event(), threading.Event()
    store.on_commit.append(lambda _: (committed.set(), go_on.wait(10)))  # type: ignore[arg-type,func-returns-value]
    recorder.conversation(seen("t1", "s1"))
    recorder.events([of_thread("t1", 1)])
    assert committed.wait(10)
    recorder.events([of_thread("t1", 2)])
    threading.Timer(0.3, go_on.set).start()
    with recorder.taken("s1") as events:
        assert go_on.is_set()
    with store.session() as session:
        event_log.append(session, [*events, event(EventType.STATUS_ENDED, RUN, step="s1")])
    recorder.close()
    assert [one.payload.get("number") for one in stored(store)] == [1, 2, None]


def test_a_step_that_ends_does_not_wait_until_the_recorder_may_write(store: Store, recorder: Recorder) -> None:
    recorder.conversation(seen("t1", "s1"))
    with store.session():  # the only writer: the recorder waits for it
        recorder.events([of_thread("t1", 1)])
        time.sleep(0.3)
        with recorder.taken("s1") as events:
            assert [one.payload["number"] for one in events] == [1]


def test_the_last_word_on_each_lifecycle_is_kept(store: Store, recorder: Recorder) -> None:
    now = utcnow()
    turn = TurnLifecycle(turn_id="u", thread_id="t", status=LifecycleStatus.IN_PROGRESS, started_at=now)
    item = ItemLifecycle(
        item_id="i", turn_id="u", thread_id="t", type="agentMessage", status=LifecycleStatus.IN_PROGRESS, started_at=now
    )
    recorder.conversation(seen("t", "s", "u"))
    recorder.turn(turn, RUN)
    recorder.item(item, RUN)

    def rows() -> tuple[list[Conversation], list[RuntimeTurn], list[RuntimeItem]]:
        with store.read() as session:
            return (
                list(session.exec(select(Conversation)).all()),
                list(session.exec(select(RuntimeTurn)).all()),
                list(session.exec(select(RuntimeItem)).all()),
            )

    wait_for(lambda: all(rows()), "the first word is written")
    assert rows()[0][0].active_turn_id == "u"
    done = {"status": LifecycleStatus.COMPLETED, "ended_at": now + dt.timedelta(seconds=1)}
    recorder.turn(turn.model_copy(update=done), RUN)
    recorder.item(item.model_copy(update=done), RUN)
    recorder.conversation(seen("t", "s", None, now))
    recorder.close()
    (talk,), (a_turn,), (an_item,) = rows()
    assert (talk.active_turn_id, talk.closed_at, talk.role, talk.subject) == (None, now, "quick", "IBM")
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
    recorder.conversation(seen("t", "s"))
    for number in range(10):
        recorder.events([a_note(RUN, number)])
    wait_for(lambda: recorder._away, "it is noticed")
    rename("away", "event_batch")
    wait_for(lambda: len(stored(store)) == 10, "all are written")
    recorder.close()
    assert [(one.sequence, one.payload["number"]) for one in stored(store)] == [(n + 1, n) for n in range(10)]
    with store.read() as session:
        assert len(conversations(session, RUN)) == 1


def test_more_than_it_holds_is_left_out_and_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.events.heard.QUEUED_MOST", 5)
    recorder = Recorder(store)
    with store.session():
        recorder.events([a_note(RUN, 0)])
        recorder.events([a_note(RUN, number) for number in range(1, 9)])
    recorder.close()
    assert recorder.dropped == 4
    assert [one.payload["number"] for one in stored(store)] == [0, 1, 2, 3, 4]
    assert sequences(stored(store)) == [1, 2, 3, 4, 5]


def test_what_is_given_back_may_be_more_than_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.events.heard.QUEUED_MOST", 5)
    heard = Heard()
    heard.give_back([a_note(RUN, number) for number in range(7)])
    for _ in range(2):
        heard.events([])
        heard.events([a_note(RUN, 7), a_note(RUN, 8)])
    assert heard.dropped == 4
    assert [one.payload["number"] for one in heard.take_events(100)] == list(range(7))


def test_what_can_never_be_written_stops_nothing(store: Store, recorder: Recorder) -> None:
    recorder.events([event(EventType.ITEM_COMPLETED, RUN, text=object())])
    wait_for(lambda: recorder.dropped == 1, "it is left out")
    recorder.events([a_note(RUN, 1)])
    recorder.close()
    assert sequences(stored(store)) == [1]


def test_what_the_database_refuses_is_left_out_alone(store: Store) -> None:
    """As Postgres refuses a NUL in a lifecycle, which is no reason to wait until it is back."""
    refuse = "create trigger {0} before insert on {0} when {1} like '%bad%' begin select raise(abort, 'no'); end"
    with store.session() as session:
        for table, column in (("event_batch", "new.events"), ("runtime_item", "new.item_id")):
            session.connection().execute(text(refuse.format(table, column)))
    recorder, now = Recorder(store), utcnow()
    for item in ("first", "bad", "last"):
        recorder.events([event(EventType.ITEM_COMPLETED, RUN, item_id=item)])
        row = ItemLifecycle(
            item_id=item, turn_id="u", thread_id="t", type="tool", status=LifecycleStatus.COMPLETED, started_at=now
        )
        recorder.item(row, RUN)
    recorder.close()
    assert [one.item_id for one in stored(store)] == ["first", "last"]
    with store.read() as session:
        assert {row.item_id for row in session.exec(select(RuntimeItem))} == {"first", "last"}
    assert recorder.dropped == 1


def test_what_cannot_be_told_stops_nothing_not_the_end_of_a_step_either(store: Store, recorder: Recorder) -> None:
    def odd(observer: Observer) -> None:
        observer.events([of_thread("t1", 1)])
        raise KeyError("turn")

    recorder.conversation(seen("t1", "s1"))
    with store.session(), capture_logs() as lines:  # the recorder waits for its turn to write
        recorder.later(odd)
        recorder.later(lambda observer: observer.events([of_thread("t1", 2)]))
        with recorder.taken("s1") as mine:
            assert [one.payload["number"] for one in mine] == [1, 2]
    assert [line["event"] for line in lines] == ["events.not_told"]


def test_deltas_are_not_stored(store: Store, recorder: Recorder) -> None:
    recorder.events([event(EventType.ITEM_DELTA, RUN, text="so"), a_note(RUN, 1)])
    recorder.close()
    assert [one.type for one in stored(store)] == [EventType.ITEM_COMPLETED]


def test_what_is_told_while_its_thread_looks_is_written_though_it_is_closed_then(
    store: Store, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear, told = recorder._hear, threading.Event()

    def told_after_looking() -> None:
        hear()
        if not told.is_set():
            recorder.events([a_note(RUN, 1)])
            recorder._inbox.closing.set()
            told.set()

    monkeypatch.setattr(recorder, "_hear", told_after_looking)
    recorder.events([])  # begins its thread
    assert told.wait(10)
    recorder.close()
    assert sequences(stored(store)) == [1]


def test_what_the_end_of_another_step_has_heard_is_written_soon(
    store: Store, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is heard between the recorder's own look and its sleep."""
    wait, heard = recorder._inbox.wait, threading.Event()

    def late(seconds: float | None = None) -> bool:
        if not heard.is_set():
            recorder.events([of_thread("t1", 1)])
            with recorder.taken("another"):
                pass
            heard.set()
        return wait(seconds)

    monkeypatch.setattr(recorder._inbox, "wait", late)
    recorder.events([])
    assert heard.wait(10)
    wait_for(lambda: len(stored(store)) == 1, "it is written")
