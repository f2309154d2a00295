"""The event log in the database: sequences without gaps, whatever the writers do."""

from __future__ import annotations

import threading

import orjson
import pytest
from pydantic import ValidationError
from sqlalchemy import text

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import HistoryTrimmed
from chordesk.models.events import Envelope, EventType, event
from tests.patience import PATIENCE
from tests.tasks.events.kit import a_note, sequences, undo, write


def stored(store: Store, run_id: str) -> list[Envelope]:
    with store.read() as session:
        return event_log.read(session, run_id, 0, 10_000)


def published_by(store: Store) -> list[Envelope]:
    """Return the batches of the commits from now on."""
    published: list[Envelope] = []
    store.on_commit.append(lambda batches: published.extend(one for batch in batches for one in batch.placed()))
    return published


def test_an_envelope_comes_back_as_it_went_in(store: Store) -> None:
    keys = {"thread_id": "t", "turn_id": "u", "item_id": "i", "approval_id": "a"}
    one = event(EventType.TURN_STARTED, "r", **keys, text="ünï\x00", number=1.5, nothing=None, many=[1, {"a": True}])
    bare = event(EventType.RUN_STARTED, "r")
    write(store, one, bare)
    assert stored(store, "r") == [one.model_copy(update={"sequence": 1}), bare.model_copy(update={"sequence": 2})]


def test_a_transaction_that_is_rolled_back_leaves_no_gap(store: Store) -> None:
    published = published_by(store)
    write(store, a_note("r", 1))
    undo(store, a_note("r", 2), a_note("r", 3))
    write(store, a_note("r", 4))
    assert [(one.sequence, one.payload["number"]) for one in stored(store, "r")] == [(1, 1), (2, 4)]
    assert published == stored(store, "r")


def test_a_transaction_may_add_here_and_there_and_each_run_keeps_its_own_order(store: Store) -> None:
    published = published_by(store)
    with store.session() as session:
        event_log.append(session, [a_note("b", 1), a_note("a", 1)])
        event_log.append(session, [])
        event_log.append(session, [a_note("b", 2), a_note("c", 1), a_note("a", 2)])
    assert [(one.run_id, one.sequence) for one in published] == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1)]
    for run_id in "abc":
        assert [one.payload["number"] for one in stored(store, run_id)] in ([1], [1, 2])


def test_writers_of_the_same_runs_at_once_leave_no_gap_and_wait_for_each_other(store: Store) -> None:
    """Each transaction writes to two runs, half of them in the other order."""

    def work(writer: int) -> None:
        runs = ("a", "b") if writer % 2 else ("b", "a")
        for number in range(25):
            write(store, *(a_note(run, number, writer) for run in runs))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for run_id in "ab":
        found = stored(store, run_id)
        assert sequences(found) == list(range(1, 101))
        for writer in range(4):
            assert [one.payload["number"] for one in found if one.payload["writer"] == writer] == list(range(25))


def test_trimmed_events_are_not_read(store: Store) -> None:
    write(store, *(a_note("r", number) for number in range(5)))
    with store.session() as session:
        assert event_log.trim(session, "r", 3) == 3
        assert event_log.trim(session, "r", 2) == 0  # a second trimming, of less, changes nothing
    with store.read() as session:
        assert event_log.head(session, "r") == (3, 5)
        assert sequences(event_log.read(session, "r", 3, 10)) == [4, 5]
        with pytest.raises(HistoryTrimmed, match="after 2 are gone up to 3"):
            event_log.read(session, "r", 2, 10)
    write(store, a_note("r", 6))
    with store.read() as session:
        assert sequences(event_log.read(session, "r", 3, 10)) == [4, 5, 6]


def test_every_page_is_exact_however_the_events_were_written(store: Store) -> None:
    last = 0
    for size in (1, 25, 3, 20, 2):
        write(store, *(a_note("r", last + place) for place in range(size)))
        last += size
    with store.read() as session:
        for after in range(last + 1):
            for limit in (1, 2, 19, 20, 21, 100):
                wanted = list(range(after + 1, min(after + limit, last) + 1))
                assert sequences(event_log.read(session, "r", after, limit)) == wanted
        assert (event_log.read(session, "another", 0, 2), event_log.head(session, "another")) == ([], (0, 0))


@pytest.mark.parametrize("odd", ["7", "{}", '{"type": "of.tomorrow"}'])
def test_an_event_that_cannot_be_read_does_not_hide_those_after_it(store: Store, odd: str) -> None:
    write(store, *(a_note("r", number) for number in range(3)))
    spoil = text("update event_batch set events = replace(events, :one, :odd)")
    with store.session() as session:
        (stored_text,) = session.connection().execute(text("select events from event_batch")).one()
        one = orjson.dumps(orjson.loads(stored_text)[1]).decode()
        session.connection().execute(spoil, {"one": one, "odd": odd})
    with store.read() as session:
        assert sequences(event_log.read(session, "r", 2, 10)) == [3]
        with pytest.raises(ValidationError):
            event_log.read(session, "r", 1, 10)
