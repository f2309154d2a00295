"""Readers of events and a database in trouble: trimmed events are reported as trimmed, an outage is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest
from pydantic import ValidationError

from chordesk.models import event_log, events
from chordesk.models.database.store import Store
from chordesk.models.errors import DatabaseDown, HistoryTrimmed
from chordesk.models.events import Envelope
from chordesk.models.settings import Settings
from chordesk.models.states import RunState
from chordesk.models.tables.runs import Run
from chordesk.tasks.events.feed import Feed
from tests.patience import PATIENCE
from tests.tasks.events.kit import a_note, ended, opened, read, sequences, write


def test_a_reader_of_trimmed_events_gets_an_error(store: Store) -> None:
    run_id = opened(store)
    write(store, *(a_note(run_id, number) for number in range(9)))
    with store.session() as session:
        event_log.trim(session, run_id, 4)
    ended(store, run_id)

    async def main(after: int) -> list[Envelope]:
        async with Feed(store, None) as feed:
            return await read(feed, run_id, after)

    with pytest.raises(HistoryTrimmed) as caught:
        asyncio.run(main(3))
    assert (caught.value.after, caught.value.trimmed, caught.value.last) == (3, 4, 11)
    assert sequences(asyncio.run(main(4))) == list(range(5, 12))


def test_a_reader_slower_than_the_trimming_gets_an_error(store: Store) -> None:
    run_id = opened(store)

    async def main() -> None:
        async with Feed(store, None) as feed, aclosing(feed.follow(run_id)) as slow:
            assert (await anext(slow)).sequence == 1
            for start in range(0, 400, 100):
                write(store, *(a_note(run_id, start + place) for place in range(100)))
            with store.session() as session:
                event_log.trim(session, run_id, 300)
            with pytest.raises(HistoryTrimmed):
                async for _ in slow:
                    pass

    asyncio.run(main())


def test_deleted_rows_are_reported(store: Store) -> None:
    run_id = opened(store)
    for number in range(0, 10, 2):
        write(store, a_note(run_id, number), a_note(run_id, number + 1))
    with store.session() as session:
        session.connection().exec_driver_sql("delete from event_batch where first = 4")

    async def main() -> None:
        async with Feed(store, None) as feed:
            await read(feed, run_id, most=10)

    with pytest.raises(HistoryTrimmed) as caught:
        asyncio.run(main())
    assert (caught.value.after, caught.value.trimmed) == (3, 5)


def test_a_database_that_is_away_is_reported(settings: Settings) -> None:
    """A reader that cannot begin gets an error; one that has begun waits (`test_readers_wait_for_a_lost_database`)."""
    store = Store(f"sqlite:///{settings.home}/empty.db")

    async def main(follow: Callable[[Feed], object]) -> None:
        async with Feed(store, None) as feed:
            async for _ in follow(feed):  # type: ignore[attr-defined]
                pass

    for follow in (lambda feed: feed.follow("0123"), lambda feed: feed.follow_desk()):
        with pytest.raises(DatabaseDown, match="cannot be read"):
            asyncio.run(main(follow))
    store.close()


def test_readers_wait_for_a_lost_database(store: Store) -> None:
    run_id = opened(store)

    def rename(old: str, new: str) -> None:
        with store.session() as session:
            session.connection().exec_driver_sql(f"alter table {old} rename to {new}")

    async def main() -> list[Envelope]:
        async with Feed(store, None) as feed:
            reader = asyncio.create_task(read(feed, run_id))
            await asyncio.sleep(0.3)
            rename("event_head", "event_head_away")
            await asyncio.sleep(0.4)
            rename("event_head_away", "event_head")
            ended(store, run_id)
            return await asyncio.wait_for(reader, PATIENCE)

    assert sequences(asyncio.run(main())) == [1, 2]


def test_an_event_that_cannot_be_understood_is_no_end(store: Store) -> None:
    """A newer version may have stored it: its readers do not end as if the run had."""
    run_id = opened(store)

    async def main() -> None:
        async with Feed(store, None) as feed:
            reader = asyncio.create_task(read(feed, run_id))
            await asyncio.sleep(0.3)
            with store.session() as session:
                event_log.append(session, [a_note(run_id, 1)])
                event_log.write(session)
                dream = "update event_batch set events = replace(events, 'item.completed', 'item.dreamt')"
                session.connection().exec_driver_sql(dream)
            await asyncio.wait_for(reader, PATIENCE)

    with pytest.raises(ValidationError, match=r"item\.dreamt"):
        asyncio.run(main())


def test_a_page_that_cannot_be_read_at_the_end_is_no_end(store: Store) -> None:
    """The run's end is known before its last events can be read."""
    run_id = opened(store)

    async def main() -> list[Envelope]:
        async with Feed(store, None) as feed:
            reader = asyncio.create_task(read(feed, run_id))
            await asyncio.sleep(0.3)
            with store.session() as session:
                run = session.get_one(Run, run_id)
                run.state = RunState.DONE
                event_log.append(session, [a_note(run_id, 1), events.completed(run)])
                event_log.write(session)
                session.connection().exec_driver_sql("alter table event_batch rename to away")
            await asyncio.sleep(0.4)
            with store.session() as session:
                session.connection().exec_driver_sql("alter table away rename to event_batch")
            return await asyncio.wait_for(reader, PATIENCE)

    assert sequences(asyncio.run(main())) == [1, 2, 3]
