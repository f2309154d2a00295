"""The order of events, and the ring that keeps the newest, against every way in which they may come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.models.events import Envelope, EventType, event
from chordesk.tasks.events.tail import HELD_MOST, EventSequencer, Ring
from tests.examples import examples
from tests.tasks.events.kit import sequences

MANY = settings(max_examples=examples(300), deadline=None)


def stored(run: str, sequence: int) -> Envelope:
    return event(EventType.ITEM_COMPLETED, run).model_copy(update={"sequence": sequence})


def a_delta(run: str) -> Envelope:
    return event(EventType.ITEM_DELTA, run)


@dataclass(frozen=True)
class Entry:
    """Entry of a stream: the event with a run's sequence, or a delta."""

    run: str
    sequence: int | None


RUNS = st.sampled_from(["a", "b", "c"])
ENTRIES = st.builds(Entry, RUNS, st.one_of(st.none(), st.integers(1, 30)))


@MANY
@given(st.lists(st.lists(ENTRIES, max_size=12), max_size=20), st.dictionaries(RUNS, st.integers(0, 10)))
def test_whatever_a_stream_holds_each_run_comes_in_order_and_once(
    batches: list[list[Entry]], positions: dict[str, int]
) -> None:
    order, got = EventSequencer(positions), []
    for batch in batches:
        events = [a_delta(one.run) if one.sequence is None else stored(one.run, one.sequence) for one in batch]
        got += order.take(events)
        for run, known in order.gaps().items():
            assert known > order.positions.get(run, 0) + 1
    sent = [one for batch in batches for one in batch]
    for run in "abc":
        begin = positions.get(run, 0)
        mine = [one.sequence for one in got if one.run_id == run and one.sequence is not None]
        assert mine == list(range(begin + 1, begin + 1 + len(mine)))
        # Nothing is kept back that could go on: what follows was never published.
        assert Entry(run, begin + len(mine) + 1) not in sent
        assert sum(one.run_id == run and one.sequence is None for one in got) == sent.count(Entry(run, None))


ROUND = st.tuples(st.integers(0, 5), st.lists(st.integers(0, 60), max_size=8), st.booleans())


@MANY
@given(st.lists(ROUND, max_size=12))
def test_with_the_database_behind_it_nothing_is_missing(rounds: list[tuple[int, list[int], bool]]) -> None:
    """Events are committed in order, published in any order, some twice and some never, and read when a look or a gap
    asks for it: a reader ends with all of them."""
    order, got, committed = EventSequencer({}), [], 0

    def read() -> list[Envelope]:
        return order.take([stored("a", one) for one in range(order.positions.get("a", 0) + 1, committed + 1)])

    for more, published, fills in rounds:
        committed += more
        got += order.take([stored("a", one % committed + 1) for one in published] if committed else [])
        if order.gaps() and fills:
            got += read()
            assert not order.gaps()
    got += read()
    assert sequences(got) == list(range(1, committed + 1))


def test_more_than_can_be_held_is_read_again() -> None:
    order = EventSequencer({})
    assert order.take([stored("a", one) for one in range(2, HELD_MOST + 10)]) == []
    freed = order.take([stored("a", 1)])
    assert sequences(freed) == list(range(1, HELD_MOST + 2))
    assert order.gaps() == {"a": HELD_MOST + 9}


def test_lost_events_are_skipped_and_those_held_behind_them_go_on() -> None:
    order = EventSequencer({"a": 2})
    assert order.take([stored("a", 5), stored("a", 9)]) == []
    order.skip("a", 4)
    assert order.gaps() == {"a": 9}
    assert sequences(order.take([stored("a", 5)])) == [5]
    order.skip("a", 3)  # behind: nothing
    order.skip("a", 12)
    assert order.gaps() == {}
    assert order.positions == {"a": 12}


@MANY
@given(st.integers(0, 5), st.integers(1, 6), st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=30))
def test_a_cursor_sees_what_follows_it_or_an_error(base: int, size: int, puts: list[tuple[int, bool]]) -> None:
    """Against a plain list of all that was ever put in."""

    async def main() -> None:
        ring, all_, last = Ring(size, base), [], base
        for count, with_delta in puts:
            batch = [stored("a", last + place + 1) for place in range(count)] + [a_delta("a")] * with_delta
            last += count
            all_ += batch
            ring.put(batch)
            assert ring.end == len(all_)
            for cursor in range(len(all_) + 1):
                found = ring.since(cursor, 3)
                assert found is None or found == all_[cursor : cursor + 3]
                if cursor >= len(all_) - size:
                    assert found is not None
            for sequence in range(base, last + 1):
                place = ring.find(sequence)
                following = [one for one in all_ if one.sequence is not None and one.sequence > sequence]
                if place is None:
                    assert len(all_) - all_.index(following[0]) > size
                else:
                    seen = ring.since(place, len(all_)) or []
                    assert [one for one in seen if one.sequence is not None] == following

    asyncio.run(main())


def test_a_cleared_ring_knows_no_cursor_from_before() -> None:
    async def main() -> None:
        ring = Ring(10)
        ring.put([stored("a", 1), stored("a", 2)])
        cursor = ring.end
        ring.clear(7)
        assert ring.since(cursor, 5) is None
        assert ring.find(6) is None
        ring.put([stored("a", 8)])
        assert sequences(ring.since(ring.find(7) or 0, 5) or []) == [8]

    asyncio.run(main())
