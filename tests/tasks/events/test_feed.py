"""Readers of events: everything after a sequence, in order, each once, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing

import pytest

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.events import DESK, Envelope, EventType, event
from chordesk.tasks.events.deltas import DeltaPublisher
from chordesk.tasks.events.feed import Feed
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


def test_a_slow_reader_delays_no_other(store: Store) -> None:
    run_id = opened(store)

    async def main() -> tuple[list[Envelope], list[Envelope]]:
        async with Feed(store, None) as feed, aclosing(feed.follow(run_id)) as slow:
            got = [await anext(slow)]
            quick = asyncio.create_task(read(feed, run_id, most=1001))
            for start in range(0, 1000, 50):
                await asyncio.to_thread(write, store, *(a_note(run_id, start + place) for place in range(50)))
            found = await asyncio.wait_for(quick, PATIENCE)
            got += [await anext(slow) for _ in range(1000)]
            return got, found

    slow, quick = asyncio.run(main())
    assert sequences(slow) == sequences(quick) == list(range(1, 1002))


def test_an_ended_run_is_read_to_its_end_with_late_events(store: Store) -> None:
    run_id = opened(store)
    last = ended(store, run_id)
    write(store, event(EventType.ORDER_FILL, run_id, order="late"))

    async def main() -> list[list[int | None]]:
        async with Feed(store, None) as feed:
            return [sequences(await read(feed, run_id, after)) for after in (0, 1, last, last + 1)]

    assert asyncio.run(main()) == [[1, 2, 3], [2, 3], [3], []]


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


def test_deltas_that_redis_does_not_take_are_counted() -> None:
    publisher = DeltaPublisher("unix:///nowhere/redis")
    publisher.publish([event(EventType.ITEM_DELTA, "r", text=text) for text in "ab"])
    publisher.close(20)
    assert publisher.dropped == 2


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


def test_all_runs_from_now_on_each_without_a_gap(store: Store) -> None:
    """Two runs, one of them under way before, with two writers each; the reader is slow at first."""
    old = opened(store)
    write(store, a_note(old, -1))

    async def main() -> tuple[list[Envelope], str]:
        async with Feed(store, None) as feed, aclosing(feed.follow_all(None)) as placed:
            await anext(placed)
            new = opened(store)
            writers = [Writers(store.url, run, count=2, each=50) for run in (old, new)]
            for one in writers:
                one.start()
            got = [await anext(placed)]
            for one in writers:
                await asyncio.to_thread(one.join)
            write(store, event(EventType.ORDER_TRADING, DESK, state="halted"))
            async with asyncio.timeout(PATIENCE):
                while len(got) < 202:
                    got.append(await anext(placed))
            return [one.event for one in got if one.event is not None], new

    found, new = asyncio.run(main())
    assert sequences([one for one in found if one.run_id == old]) == list(range(3, 103))
    assert sequences([one for one in found if one.run_id == new]) == list(range(1, 102))
    assert sequences([one for one in found if one.run_id == DESK]) == [1]
