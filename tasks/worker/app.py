"""The Celery app: queues, routes, transport settings, boot steps; and the notifier of workers for other processes.

`create_app` is called by each process's command. Notifications make things quick: without Redis the workers read the
database.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from celery import Celery
from celery.signals import (
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)
from celery.utils.dispatch import Signal
from kombu.connection import Connection
from kombu.entity import Exchange, Queue

from chordesk.models.errors import RedisDown
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk, redis_url, require_roles
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.kinds import QUEUES, QueueName, task_name
from chordesk.tasks.redis_clients import client, wait_ready, wrong_url
from chordesk.tasks.worker import celery_fixes
from chordesk.tasks.worker.control import HealthSocket, interrupt_on_workers, stop_on_workers
from chordesk.tasks.worker.schedule import BEAT_PREFIX, beat_schedule
from chordesk.tasks.worker.trading import request_order_pass
from chordesk.tasks.worker.work import add_step_tasks

VISIBILITY_SECONDS = 30
# A worker loads these too: the passes that are no steps, and its control commands.
INCLUDE = (
    "chordesk.tasks.worker.trading",
    "chordesk.tasks.worker.maintenance",
    "chordesk.tasks.worker.control",
    "chordesk.tasks.reports.writing",
)
PASSES: dict[str, QueueName] = {"desk.maintain": "ops", "desk.orders": "trade", "desk.documents": "ops"}


def create_app(settings: Settings, name: str = "desk", *, warm: bool = False, turns: bool = False) -> Celery:
    """Return an app wired to a desk of its own; `name` distinguishes its processes in leases and folders.

    warm: load prices and the exchange's calendar as soon as the worker is up, not with its first task. turns: it runs
    models' turns, for which a library may have to be loaded as well.
    """
    require_roles(settings)  # a wrong setting is named before a Redis that is missing
    celery_fixes.guard_lost_connection()
    address = redis_url(settings)
    broker = _checked(address)
    app = Celery("desk", broker=broker, backend=broker, include=INCLUDE, set_as_current=True)
    celery_fixes.use_chord_counter(app)
    app.conf.update(_configuration(settings, address))
    app.desk = Desk(settings, name)
    add_step_tasks(app)
    app.steps["consumer"].update(
        (celery_fixes.KeepUnacked, celery_fixes.BatchEvents, celery_fixes.StopFetching, HealthSocket)
    )
    _follow_worker(app.desk, warm, turns)
    return app


def _checked(address: str) -> str:
    """Return Celery's form of the URL. Raises SettingError when Celery's client or redis-py, which the schedule uses,
    cannot read it; neither connects yet."""
    client(address, 1.0).close()
    try:
        Connection(found := celery_url(address))
    except (KeyError, TypeError, ValueError):
        raise wrong_url(address) from None
    return found


def _configuration(settings: Settings, address: str) -> dict[str, Any]:
    return {
        "task_queues": [_queue(name) for name in QUEUES],
        "task_default_queue": "ops",
        "task_create_missing_queues": False,
        "task_routes": {name: {"queue": queue} for name, queue in routes().items()},
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_track_started": False,
        "result_expires": 3600,
        "result_chord_join_timeout": 10,
        "worker_prefetch_multiplier": 1,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": True,
        "task_send_sent_event": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport_options": {
            "visibility_timeout": VISIBILITY_SECONDS,
            "unacked_restore_interval": 2,
            "unacked_restore_throttle": 1,
        },
        # Results are not read, so a send should not wait long for the server that keeps them.
        "result_backend_transport_options": {
            "retry_policy": {"max_retries": 4, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}
        },
        "timezone": "America/New_York",
        "beat_schedule": beat_schedule(settings),
        "beat_max_loop_interval": 1,
        "redbeat_redis_url": address,
        "redbeat_key_prefix": BEAT_PREFIX,
        "redbeat_lock_timeout": 5,
    }


def routes() -> dict[str, QueueName]:
    """Return the queue of each task, by the task's name."""
    return {**{task_name(spec.kind): spec.queue for spec in kinds.steps()}, **PASSES}


def _queue(name: str) -> Queue:
    # Without an exchange and a key of its own a queue takes the default's, and then gets every message of the others.
    return Queue(name, Exchange(name, type="direct"), routing_key=name)


def _follow_worker(desk: Desk, warm: bool, turns: bool) -> None:
    """Connect the desk to the worker's signals."""
    worker_shutting_down.connect(desk.drain.request, weak=False)
    _on(worker_ready, desk.drain.take_signals)
    _on(worker_ready, lambda: desk.drain.watch(desk.lease_keeper))
    _on(worker_ready, lambda: desk.telemetry.begin())
    if warm:
        _on(worker_ready, lambda: threading.Thread(target=desk.warm, args=(turns,), name="warm", daemon=True).start())
    _on(worker_shutdown, desk.close)


def _on(signal: Signal, do: Callable[[], None]) -> None:
    signal.connect(lambda **_: do(), weak=False)


def celery_url(address: str) -> str:
    """Return Celery's form of a redis-py URL, with the same meaning: a unix socket is spelled `redis+socket://` with
    the login before its path, and TLS checks the server's certificate unless the URL disables that (kombu would
    not)."""
    parts = urlsplit(address)
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "rediss":
        query.setdefault("ssl_cert_reqs", "required")
        return urlunsplit(parts._replace(query=urlencode(query)))
    if parts.scheme != "unix":
        return address
    user, password = query.pop("username", ""), query.pop("password", "")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user or password else ""
    if "db" in query:
        query["virtual_host"] = query.pop("db")
    rest = f"?{urlencode(query)}" if query else ""
    return f"redis+socket://{parts.netloc or login}{parts.path}{rest}"


def node_name(role: str, suffix: str = "") -> str:
    """Return a worker's name on the broker; two of the same name on one host would share a mailbox."""
    return f"{role}{suffix}@{platform.node() or 'localhost'}"


# Notifications to the workers from commands and the HTTP API. They make things quick; without Redis the workers read
# the database.

REDIS_SECONDS = 1.0


class WorkerNotifier:
    """A sender of notifications with one Celery app, made with the first. Threads may share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._made: Celery | None = None

    def stop(self, run_ids: Sequence[str]) -> None:
        """Have the workers interrupt what they hold of these runs. Raises RedisDown; they read it from the database
        within a third of a lease then."""
        stop_on_workers(self.app(), run_ids)

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        """Have the worker that runs this turn end it; return whether one did. Raises RedisDown."""
        return interrupt_on_workers(self.app(), thread_id, turn_id)

    def trade(self) -> bool:
        """Request an order pass of the trade queue now; False when that failed, and the pass comes within a minute."""
        try:
            return request_order_pass(self.app())
        except RedisDown:
            return False

    def app(self) -> Celery:
        """Return the app. Raises RedisDown when the server does not answer: Celery's own attempts would take longer."""
        wait_ready(redis_url(self._settings), REDIS_SECONDS)
        with self._lock:
            if self._made is None:
                self._made = create_app(self._settings, "cli")
            return self._made
