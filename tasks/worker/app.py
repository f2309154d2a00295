"""The Celery app of a desk: its tasks, routes and boot steps. `create_app` is called by each process's command."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable
from typing import Any

from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from celery.utils.dispatch import Signal

from chordesk.agents.role_models import require_roles
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.kinds import QueueName, task_name
from chordesk.tasks.redis_clients import SILENT_SECONDS, redis_url
from chordesk.tasks.schedules import BEAT_PREFIX, beat_schedule, of_settings
from chordesk.tasks.worker import celery_fixes
from chordesk.tasks.worker.control import HealthSocket
from chordesk.tasks.worker.maintenance import Sweeper
from chordesk.tasks.worker.messages import DeskApp, passes, sender_app
from chordesk.tasks.worker.work import add_pass_tasks, add_step_tasks

# A worker loads these too: the passes that are not steps, and its control commands.
INCLUDE = (
    "chordesk.tasks.worker.order_pass",
    "chordesk.tasks.worker.control",
    "chordesk.tasks.reports.writing",
    "chordesk.tasks.workflows.scheduled",
)


def create_app(settings: Settings, name: str = "desk", *, warm: bool = False, turns: bool = False) -> DeskApp:
    """Return an app wired to a desk of its own; `name` distinguishes its processes in leases and folders. warm: load
    prices and the exchange's calendar as soon as the worker is up, not with its first task. turns: it runs models'
    turns, for which a library may have to be loaded as well."""
    require_roles(settings)  # a wrong setting is named before a Redis that is missing
    app: DeskApp = sender_app(settings, DeskApp, include=INCLUDE)
    celery_fixes.use_chord_counter(app)
    app.conf.update(_configuration(settings))
    app.desk = Desk(settings, name)
    add_step_tasks(app)
    add_pass_tasks(app)
    app.steps["consumer"].update(
        (celery_fixes.KeepUnacked, celery_fixes.BatchEvents, celery_fixes.StopFetching, HealthSocket)
    )
    _follow_worker(app, warm, turns)
    return app


def _configuration(settings: Settings) -> dict[str, Any]:
    return {
        "task_routes": {name: {"queue": queue} for name, queue in routes().items()},
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_track_started": False,
        "result_expires": 3600,
        "result_chord_join_timeout": 10,
        "worker_prefetch_multiplier": 1,
        "worker_direct": True,
        "worker_hijack_root_logger": False,
        "worker_consumer": "chordesk.tasks.worker.celery_fixes:Consumer",
        "worker_send_task_events": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "beat_schedule": beat_schedule(of_settings(settings)),
        "beat_max_loop_interval": 1,
        "redbeat_redis_url": redis_url(settings),
        "redbeat_redis_options": {"socket_timeout": SILENT_SECONDS, "socket_connect_timeout": SILENT_SECONDS},
        "redbeat_key_prefix": BEAT_PREFIX,
        "redbeat_lock_timeout": 5,
    }


def routes() -> dict[str, QueueName]:
    """Return the queue of each task, by the task's name."""
    return {**{task_name(spec.kind): spec.queue for spec in kinds.steps()}, **passes()}


def _follow_worker(app: DeskApp, warm: bool, turns: bool) -> None:
    """Connect the desk to the worker's signals."""
    desk = app.desk
    worker_shutting_down.connect(desk.drain.request, weak=False)
    _on(worker_ready, desk.drain.take_signals)
    _on(worker_ready, lambda: desk.drain.watch(desk.lease_keeper))
    _on(worker_ready, lambda: desk.telemetry.begin())
    _on(worker_ready, lambda: desk.shortages.start())
    worker_ready.connect(lambda sender, **_: Sweeper(app, sender.hostname).start(), weak=False)
    if warm:
        _on(worker_ready, lambda: threading.Thread(target=desk.warm, args=(turns,), name="warm", daemon=True).start())
    _on(worker_shutdown, desk.close)


def _on(signal: Signal, do: Callable[[], None]) -> None:
    signal.connect(lambda **_: do(), weak=False)


def node_name(role: str) -> str:
    return f"{role}@{platform.node() or 'localhost'}"
