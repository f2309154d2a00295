"""A Redis of its own that a test may kill, writers of events, and readers of them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from chordesk.models import event_log
from chordesk.models import events as run_events
from chordesk.models.database.store import Store
from chordesk.models.events import Envelope, EventType, event
from chordesk.models.states import RunState
from chordesk.models.tables.runs import Run
from chordesk.tasks.events.feed import Feed
from chordesk.tasks.services.parent_guard import PARENT
from chordesk.tasks.services.supervision import guarded
from tests.builders import run_row
from tests.conftest import answers, valkey_binary
from tests.patience import PATIENCE
from tests.stack import wait_for


class RedisServer:
    """On a private socket; it keeps nothing over a restart."""

    def __init__(self) -> None:
        # A short path: a unix socket's is limited to about 100 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="desk-redis-"))
        self.path = self.folder / "s"
        self.url = f"unix://{self.path}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [valkey_binary(), "--port", "0", "--unixsocket", str(self.path), "--save", ""]
        environ, quiet = {**os.environ, PARENT: str(os.getpid())}, subprocess.DEVNULL
        whole = guarded("KILL", [*command, "--dir", str(self.folder)])
        self._process = subprocess.Popen(whole, env=environ, stdout=quiet, stderr=quiet)
        wait_for(lambda: answers(self.path), "Redis answers")

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)


def a_note(run_id: str, number: int, writer: int = 0) -> Envelope:
    """Return a small event with its writer and its number."""
    return event(EventType.ITEM_COMPLETED, run_id, item_id=f"{writer}-{number}", writer=writer, number=number)


def opened(store: Store) -> str:
    """A run that goes on."""
    run = run_row()
    with store.session() as session:
        session.add(run)
        event_log.append(session, [run_events.started(run)])
    return run.id


def ended(store: Store, run_id: str) -> int:
    """The end of a run, as any closing of it is written; its last sequence."""
    with store.session() as session:
        run = session.get_one(Run, run_id)
        run.state = RunState.DONE
        event_log.append(session, [run_events.completed(run)])
    with store.read() as session:
        return event_log.head(session, run_id)[1]


def write(store: Store, *events: Envelope) -> None:
    with store.session() as session:
        event_log.append(session, events)


class Undone(Exception):
    """A writer's change of mind."""


def undo(store: Store, *events: Envelope) -> None:
    """A transaction with events that is rolled back after they got their sequences."""
    try:
        with store.session() as session:
            event_log.append(session, events)
            event_log.write(session)
            raise Undone
    except Undone:
        pass


class Writers:
    """Threads, each with a store of its own as processes have, that write to one run."""

    def __init__(self, database: str, run_id: str, count: int, each: int) -> None:
        self._args = (database, run_id, each)
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]
        self.written = 0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _write(self, writer: int) -> None:
        database, run_id, each = self._args
        store, chance = Store(database), random.Random(writer)
        number = 0
        while number < each:
            size = min(chance.randint(1, 4), each - number)
            events = [a_note(run_id, number + place, writer) for place in range(size)]
            if chance.random() < 0.1:
                undo(store, *events)
            write(store, *events)
            number += size
            self.written += size
            time.sleep(chance.random() * 0.005)
        store.close()


async def read(feed: Feed, run_id: str, after: int = 0, most: int | None = None, **how: bool) -> list[Envelope]:
    """Return the events of a reader until the end, or until it has so many."""
    got: list[Envelope] = []
    async with aclosing(feed.follow(run_id, after, **how)) as events:
        async for one in events:
            got.append(one)
            if most is not None and len(got) >= most:
                break
    return got


async def roaming(feed: Feed, run_id: str, chance: random.Random) -> list[Envelope]:
    """A reader that drops its connection and comes back, at random, until the run has ended."""
    got: list[Envelope] = []
    await asyncio.sleep(chance.random() * 0.5)
    while not got or got[-1].type is not EventType.RUN_COMPLETED:
        after = got[-1].sequence or 0 if got else 0
        got += await read(feed, run_id, after, chance.choice((1, 3, 20, 100, None)))
        await asyncio.sleep(chance.random() * 0.05)
    return got


def sequences(events: Sequence[Envelope]) -> list[int | None]:
    return [one.sequence for one in events]


async def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.01)
