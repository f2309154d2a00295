"""Readers of events: everything after a sequence, in order, each once, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing

import pytest
import redis

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.events import DESK, Envelope, EventType, batches, event
from chordesk.models.settings import Settings
from chordesk.tasks.events.feed import Feed
from chordesk.tasks.events.streams import Publisher, key_of
from tests.patience import PATIENCE
from tests.tasks.events.kit import (
    RedisServer,
    Writers,
    a_note,
    ended,
    listening,
    opened,
    read,
    roaming,
    sequences,
    until,
    write,
)

NO_REDIS = "unix:///nowhere/redis"


@pytest.mark.parametrize("trouble", ["none", "restart", "trimmed", "away"])
def test_readers_that_come_and_go_all_get_the_same(
    store: Store, settings: Settings, redis_own: RedisServer, trouble: str
) -> None:
    """30 readers, 600 events of two writers, with transactions that are rolled back in between."""
    run_id = opened(store)
    address = NO_REDIS if trouble == "away" else redis_own.url

    async def main() -> list[list[Envelope]]:
        writers = Writers(store.url, address, run_id, count=2, each=300)
        async with Feed(store, address, settings) as feed:
            readers = [asyncio.create_task(roaming(feed, run_id, random.Random(seed))) for seed in range(30)]
            writers.start()
            await until(lambda: writers.written > 200, "the writers are at it")
            if trouble == "restart":
                await asyncio.to_thread(redis_own.kill)
                await asyncio.sleep(0.3)
                await asyncio.to_thread(redis_own.start)
            if trouble == "trimmed":
                with redis.Redis.from_url(address) as client:
                    for _ in range(5):
                        client.xtrim(key_of(run_id), maxlen=0, approximate=False)
                        await asyncio.sleep(0.05)
            await asyncio.to_thread(writers.join)
            last = ended(store, run_id)
            found = await asyncio.wait_for(asyncio.gather(*readers), PATIENCE)
            assert last == 602
            return found

    found = asyncio.run(main())
    assert all(sequences(one) == list(range(1, 603)) for one in found)
    assert len({tuple(event.event_id for event in one) for one in found}) == 1
    for writer in (0, 1):  # each writer's own order is kept
        numbers = [one.payload["number"] for one in found[0] if one.payload.get("writer") == writer]
        assert numbers == list(range(300))


def test_readers_of_one_run_share_one_connection(store: Store, settings: Settings, redis_own: RedisServer) -> None:
    run_id = opened(store)

    async def main() -> tuple[list[list[Envelope]], int]:
        async with Feed(store, redis_own.url, settings) as feed:
            readers = [asyncio.create_task(read(feed, run_id)) for _ in range(20)]
            await until(lambda: listening(redis_own.url) > 0, "the tail listens")
            await asyncio.sleep(0.2)
            count = listening(redis_own.url)
            ended(store, run_id)
            return await asyncio.gather(*readers), count

    found, count = asyncio.run(main())
    assert count == 1
    assert all(sequences(one) == [1, 2] for one in found)


def test_a_published_event_arrives_at_once_and_an_unpublished_one_is_found(
    store: Store, settings: Settings, redis_own: RedisServer
) -> None:
    """The second of three events is never published; the database knows it."""
    run_id = opened(store)
    publisher = Publisher(redis_own.url, 100)

    async def main() -> list[Envelope]:
        async with Feed(store, redis_own.url, settings) as feed:
            reader = asyncio.create_task(read(feed, run_id, most=4))
            await until(lambda: listening(redis_own.url) > 0, "the tail listens")
            store.on_commit.append(publisher.publish)
            write(store, a_note(run_id, 1))
            store.on_commit.clear()
            write(store, a_note(run_id, 2))
            store.on_commit.append(publisher.publish)
            write(store, a_note(run_id, 3))
            return await asyncio.wait_for(reader, PATIENCE)

    found = asyncio.run(main())
    publisher.close()
    assert sequences(found) == [1, 2, 3, 4]
    assert [one.payload.get("number") for one in found] == [None, 1, 2, 3]


@pytest.mark.usefixtures("often")
def test_a_slow_reader_goes_on_from_the_database_and_delays_no_other(store: Store, settings: Settings) -> None:
    """The buffer holds 100 to 200 events: the slow reader takes one while 1,000 are written."""
    run_id = opened(store)
    small = settings.model_copy(update={"event_stream_length": 100})

    async def main() -> tuple[list[Envelope], list[Envelope]]:
        async with Feed(store, None, small) as feed, aclosing(feed.follow(run_id)) as slow:
            got = [await anext(slow)]
            quick = asyncio.create_task(read(feed, run_id, most=1001))
            for start in range(0, 1000, 50):
                await asyncio.to_thread(write, store, *(a_note(run_id, start + place) for place in range(50)))
                await asyncio.sleep(0.05)
            found = await asyncio.wait_for(quick, PATIENCE)
            got += [await anext(slow) for _ in range(1000)]
            return got, found

    slow, quick = asyncio.run(main())
    assert sequences(slow) == sequences(quick) == list(range(1, 1002))


def test_an_ended_run_is_read_to_its_end_with_late_events(store: Store, settings: Settings) -> None:
    run_id = opened(store)
    last = ended(store, run_id)
    write(store, event(EventType.ORDER_FILL, run_id, order="late"))

    async def main() -> list[list[int | None]]:
        async with Feed(store, None, settings) as feed:
            return [sequences(await read(feed, run_id, after)) for after in (0, 1, last, last + 1)]

    assert asyncio.run(main()) == [[1, 2, 3], [2, 3], [3], []]


@pytest.mark.parametrize("run", ["none", "no events"])
def test_a_run_without_events(store: Store, settings: Settings, run: str) -> None:
    run_id = opened(store) if run == "no events" else "0123"
    if run == "no events":
        ended(store, run_id)
        with store.session() as session:
            session.connection().exec_driver_sql("delete from event_batch")
            session.connection().exec_driver_sql("delete from event_head")

    async def main() -> list[Envelope]:
        async with Feed(store, None, settings) as feed:
            return await read(feed, run_id)

    if run == "no events":
        assert asyncio.run(main()) == []
    else:
        with pytest.raises(NotFound, match="no run '0123'"):
            asyncio.run(main())


@pytest.mark.parametrize("after", [-1, 2])
def test_a_sequence_that_is_none_is_refused(store: Store, settings: Settings, after: int) -> None:
    run_id = opened(store)

    async def main() -> None:
        async with Feed(store, None, settings) as feed:
            await feed.check(run_id, after)

    with pytest.raises(UsageError, match=rf"events 1 to 1: {after} is none"):
        asyncio.run(main())


def test_deltas_come_on_request_and_are_never_stored(store: Store, settings: Settings, redis_own: RedisServer) -> None:
    run_id = opened(store)
    publisher = Publisher(redis_own.url, 100)
    store.on_commit.append(publisher.publish)
    delta = event(EventType.ITEM_DELTA, run_id, item_id="i", text="so far")

    async def main() -> tuple[list[Envelope], list[Envelope]]:
        async with Feed(store, redis_own.url, settings) as feed:
            with_them: list[Envelope] = []

            async def all_of_it() -> None:
                async for one in feed.follow(run_id, deltas=True):
                    with_them.append(one)

            reading = asyncio.create_task(all_of_it())
            without = asyncio.create_task(read(feed, run_id))
            await until(lambda: listening(redis_own.url) > 0, "the tail listens")
            publisher.publish(list(batches(run_id, None, [delta])))
            await until(lambda: delta in with_them, "the delta has come")
            write(store, a_note(run_id, 1))
            ended(store, run_id)
            await reading
            return with_them, await without

    with_them, without = asyncio.run(main())
    publisher.close()
    assert sequences(with_them) == [1, None, 2, 3]
    assert with_them[1] == delta
    assert sequences(without) == [1, 2, 3]
    with store.read() as session:
        assert sequences(event_log.read(session, run_id, 0, 10)) == [1, 2, 3]


def test_an_unreadable_stream_entry_is_read_in_the_database(
    store: Store, settings: Settings, redis_own: RedisServer
) -> None:
    run_id = opened(store)

    async def main() -> list[Envelope]:
        async with Feed(store, redis_own.url, settings) as feed:
            reader = asyncio.create_task(read(feed, run_id))
            await until(lambda: listening(redis_own.url) > 0, "the tail listens")
            with redis.Redis.from_url(redis_own.url) as client:
                for text in (b"\xff", b"{}", b'{"run_id": "another"}'):
                    client.xadd(key_of(run_id), {"event": text})
                client.xadd(key_of(run_id), {"nothing": ""})
            ended(store, run_id)
            return await asyncio.wait_for(reader, PATIENCE)

    assert sequences(asyncio.run(main())) == [1, 2]


def test_the_end_of_the_feed_ends_its_readers(store: Store, settings: Settings, redis_own: RedisServer) -> None:
    run_id = opened(store)

    async def main() -> tuple[list[Envelope], list[Envelope], list[Envelope]]:
        feed, one = Feed(store, redis_own.url, settings), []

        async def run() -> None:
            async for each in feed.follow(run_id):
                one.append(each)

        async def desk() -> list[Envelope]:
            return [each async for each in feed.follow_desk()]

        readers = asyncio.gather(run(), desk())
        await until(lambda: listening(redis_own.url) == 2 and bool(one), "both listen, and one has what is stored")
        await feed.close()
        _, all_ = await asyncio.wait_for(readers, PATIENCE)
        return one, all_, await read(feed, run_id)

    one, all_, late = asyncio.run(main())
    assert sequences(one) == [1]
    assert (all_, late) == ([], [])


class TestDesk:
    def test_all_runs_from_now_on_each_without_a_gap(
        self, store: Store, settings: Settings, redis_own: RedisServer
    ) -> None:
        """Two runs, one of them under way before, their writers in two threads, Redis lost in the middle."""
        old = opened(store)
        write(store, a_note(old, -1))

        async def main() -> tuple[list[Envelope], str]:
            async with Feed(store, redis_own.url, settings) as feed, aclosing(feed.follow_desk()) as events:
                first = asyncio.create_task(anext(events))
                await until(lambda: listening(redis_own.url) > 0, "the tail listens")
                new = opened(store)
                writers = [Writers(store.url, redis_own.url, run, count=2, each=50) for run in (old, new)]
                for one in writers:
                    one.start()
                await until(lambda: writers[0].written > 30, "the writers are at it")
                await asyncio.to_thread(redis_own.kill)
                await asyncio.sleep(0.1)
                await asyncio.to_thread(redis_own.start)
                for one in writers:
                    await asyncio.to_thread(one.join)
                write(store, event(EventType.ORDER_TRADING, DESK, state="halted"))
                got = [await asyncio.wait_for(first, PATIENCE)]
                async with asyncio.timeout(PATIENCE):
                    while len(got) < 202:
                        got.append(await anext(events))
                return got, new

        found, new = asyncio.run(main())
        assert sequences([one for one in found if one.run_id == old]) == list(range(3, 103))
        assert sequences([one for one in found if one.run_id == new]) == list(range(1, 102))
        assert sequences([one for one in found if one.run_id == DESK]) == [1]

    @pytest.mark.usefixtures("often")
    def test_a_slow_reader_misses_nothing(self, store: Store, settings: Settings) -> None:
        small = settings.model_copy(update={"event_stream_length": 100})
        runs = [opened(store), opened(store)]

        async def main() -> list[Envelope]:
            async with Feed(store, None, small) as feed, aclosing(feed.follow_desk()) as events:
                first = asyncio.create_task(anext(events))
                await asyncio.sleep(0.3)
                for start in range(0, 500, 100):
                    for run_id in runs:
                        write(store, *(a_note(run_id, start + place) for place in range(100)))
                    await asyncio.sleep(0.2)
                got = [await first]
                async with asyncio.timeout(PATIENCE):
                    while len(got) < 1000:
                        got.append(await anext(events))
                return got

        found = asyncio.run(main())
        for run_id in runs:
            assert sequences([one for one in found if one.run_id == run_id]) == list(range(2, 502))
