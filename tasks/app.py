"""The Celery app: queues, routes, transport settings, boot steps. `create_app` is called by each process's command."""

from __future__ import annotations

import gc
import platform
import threading
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from celery import Celery
from celery.signals import (
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)
from kombu.connection import Connection
from kombu.entity import Exchange, Queue

from models.settings import Settings
from tasks import draining, guards, results, transport
from tasks.bootstrap import Desk, desk_of, redis_url
from tasks.redis_clients import client, wrong_url
from tasks.schedule import beat_schedule

QUEUES = ("screen", "research", "ops", "trade")
ROUTES = {
    "desk.screen": "screen",
    "desk.screen_shard": "screen",
    "desk.report": "research",
    "desk.decide": "research",
    "desk.merge": "ops",
    "desk.conclude": "ops",
    "desk.finish": "ops",
    "desk.maintain": "ops",
    "desk.submit": "trade",
    "desk.orders": "trade",
}
VISIBILITY_SECONDS = 30
# So many new objects, and Python looks for cycles of garbage among them; its own number is 700. Looking at events that
# wait to be written again and again was a sixth of the event loop's CPU.
GARBAGE = 50_000
# What a worker loads: tasks, and the control commands it answers.
MODULES = ("screen", "research", "trade", "trading", "maintenance", "stopping", "control")


def create_app(settings: Settings, name: str = "desk", *, warm: bool = False) -> Celery:
    """An app wired to a desk of its own; `name` tells its processes apart in leases and folders.

    warm: load prices and the exchange's calendar as soon as the worker is up, not with its first task.
    """
    guards.guard_lost_connection()
    transport.keep_clients()
    address = redis_url(settings)
    broker = _checked(address)
    app = Celery(
        "desk",
        broker=broker,
        backend=broker,
        include=[f"tasks.{name}" for name in MODULES],
        set_as_current=True,
    )
    results.use_chord_counter(app)
    app.conf.update(_configuration(settings, address))
    app.desk = Desk(settings, name)
    app.steps["consumer"].update((guards.KeepUnacked, transport.BatchEvents, draining.LetGo))
    _follow_worker(app, warm)
    return app


def _checked(address: str) -> str:
    """Celery's form of the URL. Raises SettingError when Celery's client or redis-py, which the schedule uses, cannot
    read it; neither connects yet."""
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
        "task_routes": {name: {"queue": queue} for name, queue in ROUTES.items()},
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
        # Nobody waits for a result, so nobody should wait long for the server that keeps them.
        "result_backend_transport_options": {
            "retry_policy": {"max_retries": 4, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}
        },
        "timezone": "America/New_York",
        "beat_schedule": beat_schedule(settings),
        "beat_max_loop_interval": 1,
        "redbeat_redis_url": address,
        "redbeat_key_prefix": "desk:beat:",
        "redbeat_lock_timeout": 5,
    }


def _queue(name: str) -> Queue:
    # Without an exchange and a key of its own a queue takes the default's, and then gets every message of the others.
    return Queue(name, Exchange(name, type="direct"), routing_key=name)


def _follow_worker(app: Celery, warm: bool) -> None:
    """App-servers are processes: whoever started them ends them, in the worker and in each prefork child."""

    def collect_rarely(**_: Any) -> None:
        gc.freeze()
        gc.set_threshold(GARBAGE)

    def load(**_: Any) -> None:
        threading.Thread(target=desk_of(app).warm, name="warm", daemon=True).start()

    def close(**_: Any) -> None:
        desk_of(app).close()

    def watch(**_: Any) -> None:
        desk_of(app).drain.watch(desk_of(app).keeper)

    def obey(**_: Any) -> None:
        desk_of(app).drain.obey()

    def tell(**_: Any) -> None:
        desk_of(app).tell()

    worker_ready.connect(collect_rarely, weak=False)
    worker_process_init.connect(collect_rarely, weak=False)
    worker_shutting_down.connect(desk_of(app).drain.ask, weak=False)
    worker_ready.connect(obey, weak=False)
    worker_ready.connect(watch, weak=False)
    worker_process_init.connect(watch, weak=False)
    worker_ready.connect(tell, weak=False)
    worker_process_init.connect(tell, weak=False)
    if warm:
        worker_ready.connect(load, weak=False)
        worker_process_init.connect(load, weak=False)
    worker_shutdown.connect(close, weak=False)
    worker_process_shutdown.connect(close, weak=False)


def celery_url(address: str) -> str:
    """Celery's form of a redis-py URL, with the same meaning: a unix socket is spelled `redis+socket://` with the login
    before its path, and TLS checks the server's certificate unless the URL says otherwise (kombu would not)."""
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
    """A worker's name on the broker; two of the same name on one host would share a mailbox."""
    return f"{role}{suffix}@{platform.node() or 'localhost'}"
