"""Real workers on a real Redis that is killed, and the same workers with a part taken away.

One whole worker serves `ops`; `screen` lacks KeepUnacked, `trade` the guard, `research` BatchEvents.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from chordesk.tasks.redis_clients import redis_url
from tests.patience import PATIENCE
from tests.stack import Processes, processes, wait_for
from tests.tasks.worker.patches.tiny import NAME, VISIBILITY_SECONDS, record
from tests.tasks.worker.steps import until

LACKING = {"ops": "nothing", "screen": "keep", "trade": "guard", "research": "batch"}
KILLS, HELD_SECONDS = 5, 5.0
SLOTS = {"ops": 2, "screen": 4, "trade": 2, "research": 2}


class Tiny:
    """The stack, and what its tasks did."""

    def __init__(self, desk: Processes) -> None:
        self.desk = desk
        self.app = desk.app

    def start(self, *queues: str) -> None:
        for queue in queues:
            command = (
                sys.executable,
                "-m",
                "tests.tasks.worker.patches.tiny",
                queue,
                str(SLOTS[queue]),
                LACKING[queue],
            )
            self.desk.spawn(queue, *command)
        self.desk.await_workers(*(f"tiny-{queue}" for queue in queues))

    def send(self, queue: str, label: str, seconds: float = 0.0, **options: Any) -> None:
        self.app.send_task(NAME, args=(label, seconds), queue=queue, **options)

    def count(self, phase: str, label: str) -> int:
        path = record(self.desk.home)
        return path.read_text().splitlines().count(f"{phase} {label}") if path.exists() else 0

    def ended(self, label: str) -> bool:
        return self.count("ended", label) > 0

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(redis_url(self.desk.settings))


@pytest.fixture(scope="module")
def tiny() -> Iterator[Tiny]:
    with processes() as desk:
        found = Tiny(desk)
        found.start(*LACKING)
        yield found


class Events:
    """A real event receiver in a thread: what came, and when."""

    def __init__(self, tiny: Tiny) -> None:
        self._app = tiny.app
        self.seen: list[tuple[str, str, float]] = []
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with self._app.connection_for_read() as connection:
            receiver = self._app.events.Receiver(connection, handlers={"*": self._take})
            with receiver.consumer_context() as (own, _, _):
                self._ready.set()
                while not self._stop.is_set():
                    try:
                        own.drain_events(timeout=0.2)
                    except TimeoutError:
                        continue

    def _take(self, event: dict[str, Any]) -> None:
        self.seen.append((event["type"], event["hostname"].partition("@")[0], time.time() - event["timestamp"]))

    def kinds(self, worker: str) -> list[str]:
        return [kind for kind, host, _ in self.seen if host == worker and kind.startswith("task-")]

    def __enter__(self) -> Events:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        time.sleep(0.3)  # the subscription has reached the server
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)


KINDS = ["task-received", "task-started", "task-succeeded"]


def published(tiny: Tiny, queue: str, tasks: int) -> int:
    """Count the messages with task events that a worker publishes for that many tasks."""
    with tiny.client() as client, client.pubsub(ignore_subscribe_messages=True) as channel:
        channel.psubscribe("*celeryev/task.*")
        channel.get_message(timeout=1.0)
        for number in range(tasks):
            tiny.send(queue, f"{queue}-{number}")
        wait_for(lambda: all(tiny.ended(f"{queue}-{number}") for number in range(tasks)), "the tasks end")
        count = 0
        while channel.get_message(timeout=0.6) is not None:
            count += 1
        return count


def test_events_are_published_by_the_clock_and_not_by_the_task(tiny: Tiny) -> None:
    assert 0 < published(tiny, "ops", 40) <= 12
    assert published(tiny, "research", 40) > 20  # the worker without the step


def test_the_last_events_of_a_worker_arrive_too(tiny: Tiny) -> None:
    """Events of a task that ended just before the worker's SIGTERM, and of one that ends after it."""
    with Events(tiny) as events:
        tiny.send("ops", "longer", 0.6)
        until(lambda: tiny.count("began", "longer") == 1, "the longer task begins")
        tiny.send("ops", "shorter")
        until(lambda: tiny.ended("shorter"), "the shorter task ends")
        tiny.desk.end("ops")
        assert tiny.ended("longer")
        try:
            until(lambda: sorted(events.kinds("tiny-ops")) == sorted(2 * KINDS), "their events arrive", 2)
        finally:
            tiny.start("ops")


def test_a_message_is_acknowledged_when_its_task_has_ended_and_few_are_taken(tiny: Tiny) -> None:
    for number in range(5):
        tiny.send("ops", f"late-{number}", 0.7)
    with tiny.client() as client:
        until(lambda: tiny.count("began", "late-1") == 1, "both slots work")
        time.sleep(0.2)
        assert (client.hlen("unacked"), client.llen("ops")) == (2, 3)
        until(lambda: tiny.ended("late-4"), "all end", 10)
        until(lambda: (client.hlen("unacked"), client.llen("ops")) == (0, 0), "all are acknowledged", 2)


def test_a_task_longer_than_the_visibility_time_out_is_delivered_once(tiny: Tiny) -> None:
    seconds = 2.5 * VISIBILITY_SECONDS
    tiny.send("ops", "kept", seconds)
    tiny.send("screen", "not kept", seconds)
    wait_for(lambda: tiny.ended("kept") and tiny.ended("not kept"), "both end")
    tiny.desk.end("screen", signal.SIGKILL)  # it would go on with copies of its copies
    assert tiny.count("began", "kept") == 1
    assert tiny.count("began", "not kept") > 1


def test_a_worker_outlives_a_killed_redis(tiny: Tiny) -> None:
    """With a message in work and a free slot, kombu 5.7.0 ends the worker. On a busy machine it may see the connection
    fail in another place first, and go on; so Redis is killed until it has ended."""
    unguarded = tiny.desk.running.pop("trade")
    try:
        for number in range(KILLS):
            for queue in ("ops", "trade"):
                tiny.send(queue, f"held by {queue}-{number}", HELD_SECONDS)
            for queue in ("ops", "trade"):
                until(lambda label=f"held by {queue}-{number}": tiny.count("began", label) > 0, f"{queue} works")
            tiny.desk.end("redis", signal.SIGKILL)
            time.sleep(0.5)
            tiny.desk.redis()
            with contextlib.suppress(subprocess.TimeoutExpired):
                unguarded.wait(4 * HELD_SECONDS)
                break
    finally:
        unguarded.kill()
    log = tiny.desk.log("trade")
    assert "Unrecoverable error: AttributeError(\"'NoneType' object has no attribute 'hostname'\")" in log
    tiny.send("ops", "afterwards")
    wait_for(lambda: tiny.ended("afterwards"), "the guarded worker goes on")
    assert tiny.desk.running["ops"].poll() is None
    assert "object has no attribute" not in tiny.desk.log("ops")
