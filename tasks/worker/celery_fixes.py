"""Changes to Celery and kombu, each with the reason and when it can be dropped, and Celery's own commands with our
app."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog
from celery import Celery, bootsteps
from celery.backends.redis import RedisBackend
from celery.worker import consumer
from kombu.transport import redis as transport
from redis._parsers.base import BaseParser
from redis.exceptions import ConnectionError as RedisConnectionError

from chordesk.tasks import life

log = structlog.get_logger(__name__)


def guard_lost_connection() -> None:
    """Make a channel without a connection raise a connection error. Safe to call twice."""
    original = transport.Channel._connparams
    if getattr(original, "guarded", False):
        return

    def guarded(self: Any, asynchronous: bool = False) -> Any:
        if self.connection is None or self.connection.client is None:
            raise RedisConnectionError("the channel has lost its connection")
        return original(self, asynchronous=asynchronous)

    guarded.guarded = True  # type: ignore[attr-defined]
    setattr(transport.Channel, "_connparams", guarded)  # noqa: B010  (a plain assignment is refused by mypy)


class RedisCannotWrite(RedisConnectionError):
    """A Redis that cannot write its file, as on a full disk: it refuses whatever changes something, and a ping."""


def count_unwritable_as_away() -> None:
    """Make redis-py raise a connection error for such a Redis. Celery and kombu wait for one that is away; at any other
    error a worker or beat ends, in the middle of its turns. It can go when kombu counts MISCONF among those."""
    BaseParser.EXCEPTION_CLASSES["MISCONF"] = RedisCannotWrite


def check_idle_subscriptions() -> None:
    """Let a consumer without an event loop, which is Flower's, check its connection too: kombu has the timer for it in
    the worker's loop alone, and a subscription to a Redis that vanished would wait for ever. It can go when kombu's
    `drain_events` does so, as it does for queues."""

    def heartbeat_check(self: Any, connection: Any, rate: int = 2) -> None:
        self.cycle.maybe_check_subclient_health()

    setattr(transport.Transport, "heartbeat_check", heartbeat_check)  # noqa: B010  (as above)


class Consumer(consumer.Consumer):  # type: ignore[misc]
    """Asks for a Redis that is away every two seconds. Celery's waits two seconds more each time, up to thirty, and
    would be away for as long when Redis is back."""

    def ensure_connected(self, conn: Any) -> Any:
        conn.ensure_connection = partial(self._ensure, conn.ensure_connection)
        return super().ensure_connected(conn)

    def _ensure(self, ensure: Any, *arguments: Any, callback: Any, **options: Any) -> Any:
        """The loop of a worker that waits for Redis turns with each try."""

        def tries() -> None:
            life.beat()
            callback()

        life.waits("redis", life.FOR_REDIS)
        return ensure(*arguments, callback=tries, interval_step=0, **options)


class KeepUnacked(bootsteps.StartStopStep):  # type: ignore[misc]
    """Refreshes the delivery time of what this consumer holds, every third of the visibility time-out."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, consumer: Any) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._loop, args=(consumer, self._stop), name="keep-unacked", daemon=True
        )
        self._thread.start()

    def stop(self, consumer: Any) -> None:
        self._stop.set()

    def _loop(self, consumer: Any, stop: threading.Event) -> None:
        channel = consumer.task_consumer.channel
        while not stop.wait(channel.visibility_timeout / 3):
            try:
                refresh(channel)
            except Exception as error:
                log.warning("unacked.refresh_failed", error=str(error))


def refresh(channel: Any) -> int:
    """Set the score of the held tags to now, if they are still in the index; how many were held."""
    held = set(channel.qos._delivered) - set(channel.qos._dirty)
    if held:
        now = time.time()
        with channel.conn_or_acquire() as client:
            client.zadd(channel.unacked_index_key, dict.fromkeys(held, now), xx=True)
    return len(held)


class ChordCounter(RedisBackend):  # type: ignore[misc]
    """Celery keeps each result that may still come, and subscribes to it. Of a chord's header none ever comes, so a
    worker that sends chords would keep and subscribe to more of them with each candidate, for as long as it runs."""

    def add_pending_result(self, result: Any, weak: bool = False, start_drainer: bool = True) -> Any:
        return result


def use_chord_counter(app: Celery) -> None:
    """Make the backend of the app's Redis URL this one."""
    name = f"{ChordCounter.__module__}:{ChordCounter.__qualname__}"
    app.loader.override_backends = {"redis": name, "rediss": name}


class StopFetching(bootsteps.StartStopStep):  # type: ignore[misc]
    """Stops fetching as soon as the worker is to end, and puts back what the last fetch brought.

    A fetch waits in Redis for up to a second. Kombu reads its answer when the channel closes, which is after the last
    task has ended: until then a message would be with a worker that never does it.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def stop(self, consumer: Any) -> None:
        if not consumer.app.desk.drain.requested or not consumer.task_consumer:
            return
        channel = consumer.task_consumer.channel
        try:
            consumer.task_consumer.cancel()
            if channel._in_poll:
                channel._brpop_read()
        except Exception as error:
            # Nothing was fetched, or Redis is away: what it lost is sent again by the sweep.
            log.debug("drain.last_fetch", error=repr(error))


# Batches of Celery's task events: a worker publishes them four times a second, or when the buffer is full, instead of
# after almost every task.
#
# Eight pairs of rounds of 150 turns, 64 at once, on two busy cores: 11.9 ms of the worker's CPU a turn against
# 15.7 ms without it, and a third more turns per second. It can go when Celery's dispatcher has an interval of its
# own.

EVENT_SECONDS = 0.25


class BatchEvents(bootsteps.StartStopStep):  # type: ignore[misc]
    """Boot step that flushes the event dispatcher's buffer by the clock instead of by the task."""

    requires = ("celery.worker.consumer.events:Events",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self._timer: Any = None

    def start(self, consumer: Any) -> None:
        if consumer.hub and consumer.event_dispatcher:
            consumer.event_dispatcher.on_send_buffered = None
            self._timer = consumer.timer.call_repeatedly(EVENT_SECONDS, consumer._flush_events)

    def stop(self, consumer: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def shutdown(self, consumer: Any) -> None:
        """Flush the events of the last tasks, some of which end after the timer is cancelled."""
        self.stop(consumer)
        if consumer.event_dispatcher:
            consumer.event_dispatcher.flush()


def guard_flower(hosts: frozenset[str]) -> None:
    """Let Flower's pages answer to these Host names alone: it looks at none, and a page of another site that resolves
    to loopback would be let in by the browser's login. Metrics and health are asked for by other names. Its API, which
    sends tasks and stops workers, stays closed."""
    views, web = importlib.import_module("flower.views"), importlib.import_module("tornado.web")

    def prepare(handler: Any) -> None:
        open_to_all = handler.request.path in ("/metrics", "/healthcheck")
        if not open_to_all and handler.request.host_name.strip("[]").lower() not in hosts:
            raise web.HTTPError(403, "the Host name is not this service's")

    def refuse(handler: Any) -> None:
        raise web.HTTPError(403, "Flower only watches")

    views.BaseHandler.prepare = prepare
    importlib.import_module("flower.api").BaseApiHandler.prepare = refuse


def run_celery(app: Celery, arguments: Sequence[str]) -> int:
    """Run `celery ARGUMENTS` in this process and return its exit code. `app.start` drops the code that click hands
    back, and a worker that crashed would end with 0."""
    # Loaded here: it brings a whole shell, and most commands are not a worker's.
    celery = importlib.import_module("celery.bin.celery").celery
    celery.params[0].default = app
    code = celery.main(args=list(arguments), standalone_mode=False)
    return code if isinstance(code, int) else 0
