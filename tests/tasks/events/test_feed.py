"""Readers of events: everything after a sequence or a place, in order, each once, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing

import pytest
from pydantic import ValidationError

from chordesk.models import event_log, events
from chordesk.models.database.store import Store
from chordesk.models.errors import DatabaseDown, HistoryTrimmed, NotFound, UsageError
from chordesk.models.events import DESK, Envelope, EventType, event
from chordesk.models.settings import Settings
from chordesk.models.states import RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import EventBatch, EventHead
from chordesk.tasks.events.deltas import DeltaPublisher
from chordesk.tasks.events.feed import DeskPlace, Feed, Placed, resumed
from tests.patience import PATIENCE
from tests.tasks.events.kit import RedisServer, Writers, a_note, ended, opened, read, roaming, sequences, until, write


def test_readers_that_come_and_go_all_get_the_same(store: Store) -> None:
    """30 readers, 600 events of two writers, with transactions that are rolled back in between."""
    run_id = opened(store)

    async def main() -> list[list[Envelope]]:
        writers = Writers(store.url, run_id, count=2, each=300)
        async with Feed(store, None) as feed:
            readers = [asyncio.create_task(roaming(feed, run_id, random.Random(seed))) for seed in range(30)]
            writers.start()
            await asyncio.to_thread(writers.join)
            assert ended(store, run_id) == 602
            return await asyncio.wait_for(asyncio.gather(*readers), PATIENCE)

    found = asyncio.run(main())
    assert all(sequences(one) == list(range(1, 603)) for one in found)
    assert len({tuple(event.event_id for event in one) for one in found}) == 1
    for writer in (0, 1):  # each writer's own order is kept
        numbers = [one.payload["number"] for one in found[0] if one.payload.get("writer") == writer]
        assert numbers == list(range(300))


def test_an_ended_run_is_read_to_its_end_with_late_events(store: Store) -> None:
    run_id = opened(store)
    last = ended(store, run_id)
    write(store, event(EventType.ORDER_FILL, run_id, order="late"))

    async def main() -> list[list[int | None]]:
        async with Feed(store, None) as feed:
            return [sequences(await read(feed, run_id, after)) for after in (0, 1, last, last + 1)]

    assert asyncio.run(main()) == [[1, 2, 3], [2, 3], [3], []]


@pytest.mark.parametrize("after", [-1, 2])
def test_a_sequence_that_is_none_is_refused(store: Store, after: int) -> None:
    run_id = opened(store)

    async def main() -> None:
        async with Feed(store, None) as feed:
            await feed.check(run_id, after)

    with pytest.raises(UsageError, match=rf"events 1 to 1: {after} is none"):
        asyncio.run(main())


def test_deltas_come_on_request_also_after_redis_was_away_and_are_never_stored(
    store: Store, redis_own: RedisServer
) -> None:
    run_id, publisher = opened(store), DeltaPublisher(redis_own.url)
    got: dict[str, list[Envelope]] = {"with": [], "desk": []}

    async def collect(name: str, events: object) -> None:
        async for one in events:  # type: ignore[attr-defined]
            got[name].append(one)

    async def told(text: str) -> None:
        """Publish a delta until both have it: nothing says when a subscription has begun."""
        delta = event(EventType.ITEM_DELTA, run_id, item_id="i", text=text)
        for _ in range(int(PATIENCE / 0.1)):
            publisher.publish([delta])
            await asyncio.sleep(0.1)
            if all(delta in some for some in got.values()):
                return
        raise AssertionError(f"{text} did not come")

    async def main() -> list[Envelope]:
        async with Feed(store, redis_own.url) as feed:
            reading = asyncio.create_task(collect("with", feed.follow(run_id, deltas=True)))
            desk = asyncio.create_task(collect("desk", feed.follow_desk(deltas=True)))
            without = asyncio.create_task(read(feed, run_id))
            await told("so far")
            await asyncio.to_thread(redis_own.kill)
            write(store, a_note(run_id, 1))
            await until(lambda: 2 in sequences(got["with"]), "stored events come without Redis")
            await asyncio.to_thread(redis_own.start)
            await told("and on")
            ended(store, run_id)
            await asyncio.wait_for(reading, PATIENCE)
            await until(lambda: 3 in sequences(got["desk"]), "the desk's reader has the end")
            desk.cancel()
            return await without

    without = asyncio.run(main())
    publisher.close()
    assert sequences(without) == [1, 2, 3]
    assert [one.sequence for one in got["with"] if one.sequence is not None] == [1, 2, 3]
    with store.read() as session:
        assert sequences(event_log.read(session, run_id, 0, 10)) == [1, 2, 3]


def test_the_end_of_the_feed_ends_its_readers(store: Store) -> None:
    run_id = opened(store)

    async def main() -> tuple[list[Envelope], list[Envelope], list[Envelope]]:
        feed, one = Feed(store, None), []

        async def run() -> None:
            async for each in feed.follow(run_id):
                one.append(each)

        async def desk() -> list[Envelope]:
            return [each async for each in feed.follow_desk()]

        readers = asyncio.gather(run(), desk())
        await until(lambda: bool(one), "one has what is stored")
        await feed.close()
        _, all_ = await asyncio.wait_for(readers, PATIENCE)
        return one, all_, await read(feed, run_id)

    one, all_, late = asyncio.run(main())
    assert sequences(one) == [1]
    assert (all_, late) == ([], [])


def test_a_run_without_events_ends_and_an_unknown_one_is_refused(store: Store) -> None:
    run_id = opened(store)
    ended(store, run_id)
    with store.session() as session:
        session.connection().exec_driver_sql("delete from event_batch")
        session.connection().exec_driver_sql("delete from event_head")

    async def main(run: str) -> list[Envelope]:
        async with Feed(store, None) as feed:
            return await read(feed, run)

    assert asyncio.run(main(run_id)) == []
    with pytest.raises(NotFound, match="no run '0123'"):
        asyncio.run(main("0123"))


def test_deltas_that_redis_does_not_take_are_counted() -> None:
    publisher = DeltaPublisher("unix:///nowhere/redis")
    publisher.publish([event(EventType.ITEM_DELTA, "r", text=text) for text in "ab"])
    publisher.close(20)
    assert publisher.dropped == 2


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
                dream = "update event_batch set events = replace(events, 'item.completed', 'Dreamt')"
                session.connection().exec_driver_sql(dream)
            await asyncio.wait_for(reader, PATIENCE)

    with pytest.raises(ValidationError, match="Dreamt"):
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


async def take(store: Store, place: str | None, count: int) -> list[Placed]:
    """As a process of its own would: the place itself, and so many events after it."""
    found: list[Placed] = []
    at = DeskPlace.parse(place) if place is not None else None
    async with Feed(store, None) as feed, aclosing(feed.follow_all(at)) as events:
        async with asyncio.timeout(PATIENCE):
            while len(found) <= count:
                found.append(await anext(events))
    return found


def pairs(found: list[Placed]) -> list[tuple[str, int | None]]:
    return [(one.event.run_id, one.event.sequence) for one in found if one.event is not None]


def age(store: Store, run_id: str, by: dt.timedelta) -> None:
    """Make a run's events as old as if they had been written then."""
    with store.session() as session:
        head = session.get_one(EventHead, run_id)
        head.updated_at -= by
        session.add(head)
        batches = session.connection().execute(
            EventBatch.__table__.select().where(EventBatch.__table__.c.run_id == run_id)  # type: ignore[attr-defined]
        )
        for row in batches.all():
            batch = session.get_one(EventBatch, (run_id, row.last))
            batch.newest_at -= by
            session.add(batch)


def test_a_reader_that_is_cut_anywhere_goes_on_with_no_gap_and_no_repeat(store: Store) -> None:
    runs = [opened(store), opened(store), opened(store), DESK]
    age(store, runs[0], dt.timedelta(days=2))
    chance = random.Random(7)

    async def main() -> tuple[list[tuple[str, int | None]], Counter[str]]:
        place, got, written = "0", [], Counter(dict.fromkeys(runs[:3], 1))
        left = 3
        for round_ in range(6):
            for number in range(chance.randint(5, 40)):
                run_id = chance.choice(runs)
                write(store, a_note(run_id, number))
                written[run_id] += 1
                left += 1
            if round_ == 3:
                runs.append(opened(store))
                written[runs[-1]] += 1
                left += 1
            some = chance.randint(1, left)
            found = await take(store, place, some)
            got += pairs(found)
            place, left = found[-1].place, left - some
        got += pairs(await take(store, place, left))
        return got, written

    got, written = asyncio.run(main())
    assert len(got) == len(set(got))
    for run_id, last in written.items():
        assert [sequence for run, sequence in got if run == run_id] == list(range(1, last + 1))


def test_a_run_that_rested_for_long_goes_on_where_it_was(store: Store) -> None:
    """A place does not name it; what it had before is not sent again."""
    rested, busy = opened(store), opened(store)
    write(store, a_note(rested, 1))
    age(store, rested, dt.timedelta(days=1))

    async def main() -> tuple[Placed, list[Placed]]:
        (begun,) = await take(store, None, 0)
        write(store, a_note(rested, 2))
        write(store, a_note(busy, 1))
        return begun, await take(store, begun.place, 2)

    begun, found = asyncio.run(main())
    assert rested not in begun.place
    assert busy in begun.place
    assert sorted(pairs(found)) == sorted([(rested, 3), (busy, 2)])
    assert rested in found[-1].place


@pytest.mark.parametrize("text", ["", "x", "1,", "1,a", "1,a:b", "-1", "1,a:1,", "0" * 16, "1,a b:1"])
def test_a_text_that_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no place in the events"):
        DeskPlace.parse(text)


def test_a_place_of_another_desk_or_of_later_is_refused(store: Store) -> None:
    run_id = opened(store)
    later = int((utcnow() + dt.timedelta(days=1)).timestamp() * 1000)
    for place in (f"1,{run_id}:99", str(later)):
        with pytest.raises(UsageError):
            asyncio.run(take(store, place, 1))
    # A run that retention has removed has nothing to say.
    assert pairs(asyncio.run(take(store, "1,gone:7", 1))) == [(run_id, 1)]


def test_trimmed_events_are_reported_and_never_left_out(store: Store) -> None:
    run_id = opened(store)
    for number in range(30):
        write(store, a_note(run_id, number))
    with store.session() as session:
        event_log.trim(session, run_id, 20)
    with pytest.raises(HistoryTrimmed):
        asyncio.run(take(store, f"1,{run_id}:19", 1))
    # From the start: all that is kept.
    assert pairs(asyncio.run(take(store, "0", 11)))[0] == (run_id, 21)
    moved = EventHead(run_id="r", last=9, trimmed=5)
    with pytest.raises(HistoryTrimmed):
        resumed(DeskPlace(utcnow()), [moved], {"r": 4})
