"""(g) readers that come and go while a run writes events: what each ends with, how many events a second, how late."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import random
import sys
import time
from contextlib import aclosing
from dataclasses import dataclass, field

from chordesk.agents.runtime import Scope
from chordesk.models import event_log
from chordesk.models import events as run_events
from chordesk.models.database.store import Store
from chordesk.models.events import EventType, event
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.events.feed import Feed
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.worker import log_format
from tests.builders import run_row
from tests.stack import Processes, processes

WRITERS = 2
NEVER = dt.datetime.max.replace(tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Replay:
    """identical: readers that ended with the sequence 1..events. rate: events a second, from the first one written to
    the last one at the last reader. late_ms: percentiles from a notification to a reader that was there. connections:
    how often readers came, all together."""

    readers: int
    identical: int
    events: int
    rate: float
    late_ms: tuple[float, float]
    connections: int


@dataclass(slots=True)
class Reader:
    """One reader's whole sequence, and how late it got what happened while it was there, in seconds."""

    sequences: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    connections: int = 0
    ended_at: dt.datetime = NEVER

    async def run(self, feed: Feed, run_id: str, chance: random.Random) -> None:
        await asyncio.sleep(chance.random())
        while self.ended_at == NEVER:
            await self._connect(feed, run_id, chance.randint(1, 1500))
            await asyncio.sleep(chance.random() * 0.2)

    async def _connect(self, feed: Feed, run_id: str, most: int) -> None:
        self.connections += 1
        here = utcnow()
        after = self.sequences[-1] if self.sequences else 0
        async with aclosing(feed.follow(run_id, after)) as events:
            async for one in events:
                assert one.sequence is not None
                self.sequences.append(one.sequence)
                self.ids.append(one.event_id)
                if one.occurred_at > here:
                    self.late.append((utcnow() - one.occurred_at).total_seconds())
                most -= 1
                if one.type is EventType.RUN_COMPLETED:
                    self.ended_at = utcnow()
                elif most == 0:
                    return


def replay(readers: int, events: int, pace: float | None) -> Replay:
    """So many readers, and so many events of as many writer processes as WRITERS, each with a recorder as a worker has
    it. pace: events a second all together; as fast as they can when None."""
    with processes(forked=False) as desk:
        store = desk.app.desk.store
        run = run_row()
        with store.session() as session:
            session.add(run)
            event_log.append(session, [run_events.started(run)])
        for number in range(WRITERS):
            _writer(desk, run.id, number, events // WRITERS, pace / WRITERS if pace else 0.0)
        found = [Reader() for _ in range(readers)]
        asyncio.run(_read(desk, store, run.id, found))
        with store.read() as session:
            last = event_log.head(session, run.id)[1]
            first = event_log.read(session, run.id, 1, 1)[0].occurred_at
    seconds = (max(one.ended_at for one in found) - first).total_seconds()
    whole, ids = list(range(1, last + 1)), found[0].ids
    same = sum(one.sequences == whole and one.ids == ids for one in found)
    late = sorted(moment for one in found for moment in one.late)
    percentiles = (late[len(late) // 2] * 1000, late[int(len(late) * 0.99)] * 1000)
    return Replay(readers, same, last, last / seconds, percentiles, sum(one.connections for one in found))


def _writer(desk: Processes, run_id: str, number: int, count: int, pace: float) -> None:
    command = [sys.executable, "-m", "tests.ordeal.feed", run_id, str(count), str(pace)]
    desk.spawn(f"writer-{number}", *command)


async def _read(desk: Processes, store: Store, run_id: str, found: list[Reader]) -> None:
    async with Feed(store, redis_url(desk.settings)) as feed:
        readers = [asyncio.create_task(one.run(feed, run_id, random.Random(seed))) for seed, one in enumerate(found)]
        await asyncio.to_thread(_end, desk, store, run_id)
        await asyncio.wait_for(asyncio.gather(*readers), 120)


def _end(desk: Processes, store: Store, run_id: str) -> None:
    """Ends the run when its writers have ended."""
    for number in range(WRITERS):
        process = desk.running.pop(f"writer-{number}")
        assert process.wait(180) == 0, desk.log(f"writer-{number}")[-2000:]
    with store.session() as session:
        run = session.get_one(Run, run_id)
        run.state, run.finished_at = RunState.DONE.value, utcnow()
        event_log.append(session, [run_events.completed(run)])


TEXT = "The trend is up and the volume confirms it. " * 5


def main(run_id: str, count: int, pace: float) -> None:
    """pace: events a second; 0 is without a pause."""
    settings = load_settings()
    log_format.configure(settings)
    desk = Desk(settings, "writer")
    recorder = desk.recorder
    began = time.perf_counter()
    for number in range(count):
        if pace and (ahead := began + number / pace - time.perf_counter()) > 0:
            time.sleep(ahead)
        keys = {"thread_id": "thread", "turn_id": f"turn-{number // 8}", "item_id": f"item-{number}"}
        recorder.record(Scope(run_id), [event(EventType.ITEM_COMPLETED, run_id, **keys, text=TEXT)])
    desk.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("run_id")
    parser.add_argument("count", type=int)
    parser.add_argument("pace", type=float)
    given = parser.parse_args()
    main(given.run_id, given.count, given.pace)
