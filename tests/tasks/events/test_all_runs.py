"""The events of all runs: readers that go on from a place in another process's feed get each event once."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections import Counter
from contextlib import aclosing

import pytest

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import HistoryTrimmed, UsageError
from chordesk.models.events import DESK
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import EventBatch, EventHead
from chordesk.tasks.events.feed import Feed, Placed
from chordesk.tasks.events.places import SLACK, DeskPlace, ReaderProgress, resumed
from tests.patience import PATIENCE
from tests.tasks.events.kit import a_note, opened, write


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


def test_a_place_names_only_runs_that_moved_lately() -> None:
    now = utcnow()
    has = ReaderProgress({"a": 3, "b": 5}, now, {"a": now})
    has.got("b", 6, now)
    assert has.place().places == {"a": 3, "b": 6}
    has.caught_up(now + SLACK)
    has.got("b", 7, now + SLACK)
    has.caught_up(now + 2.5 * SLACK)
    assert has.place().places == {"b": 7}
    before = str(has.place())
    has.caught_up(now)
    assert str(has.place()) == before, "time only goes on"
    assert str(DeskPlace.parse(before)) == before


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
