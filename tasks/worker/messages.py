"""Messages to the workers from other processes: control commands, and the request of an order pass.

They make things quick: without Redis the workers read the database. A process that only sends them needs neither a desk
nor the workflows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import structlog
from celery import Celery
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from chordesk.models import features
from chordesk.models.errors import RedisDown
from chordesk.models.settings import Settings
from chordesk.tasks.engine.kinds import QUEUES, SCHEDULED, QueueName
from chordesk.tasks.redis_clients import SILENT_SECONDS, SOCKET_LIMITS, client, redis_url, wait_ready, wrong_url
from chordesk.tasks.worker import celery_fixes, signing

if TYPE_CHECKING:
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.engine.steps import ReadyStep

log = structlog.get_logger(__name__)

STATUS = "desk_status"
STOP = "desk_stop"
CANCEL = "desk_cancel"
INTERRUPT = "desk_interrupt"
ANSWER_SECONDS = 2.0
ORDER_PASS, REPORTS_PASS = "desk.orders", "desk.documents"
# A message that waited this long is of no use: the next minute's does the same.
EXPIRES_SECONDS = 60
PASSES: dict[str, QueueName] = {ORDER_PASS: "trade", REPORTS_PASS: "ops", SCHEDULED: "ops"}
PASS_PREFIX = "desk.pass."  # and a name: a pass of a feature
VISIBILITY_SECONDS = 30
REDIS_SECONDS = 1.0
CHECK_SECONDS = 2.0


def passes() -> dict[str, QueueName]:
    """Return the queue of each task that is no step: the core's, and the passes of features."""
    return {**PASSES, **{f"{PASS_PREFIX}{name}": "ops" for name in features.passes()}}


class DeskApp(Celery):  # type: ignore[misc]
    """A Celery app of a process with a desk. plays: takes the steps that this process does itself, in place of the
    broker; None in all others."""

    desk: Desk
    plays: Callable[[Sequence[ReadyStep]], None] | None = None


def sender_app(settings: Settings, kind: type[Celery] = Celery, **options: Any) -> Celery:
    celery_fixes.guard_lost_connection()
    celery_fixes.count_unwritable_as_away()
    celery_fixes.check_idle_subscriptions()
    broker, signer = _checked(redis_url(settings)), signing.signer_of(settings)
    sent = broker if signer is None else broker.replace("redis+socket://", f"{signing.TRANSPORT}+socket://", 1)
    app = kind("desk", broker=sent, backend=broker, set_as_current=True, **options)
    app.conf.update(
        {
            "task_queues": [_queue(name) for name in QUEUES],
            "task_default_queue": "ops",
            "task_create_missing_queues": False,
            "task_routes": {name: {"queue": queue} for name, queue in passes().items()},
            "task_serializer": "json",
            "result_serializer": "json",
            "accept_content": ["json"],
            "task_ignore_result": True,
            "task_send_sent_event": False,
            "broker_transport_options": {
                "visibility_timeout": VISIBILITY_SECONDS,
                "unacked_restore_interval": 2,
                "unacked_restore_throttle": 1,
                # A consumer whose connection is silent is found after the poll of a second and twice this.
                "health_check_interval": CHECK_SECONDS,
                **SOCKET_LIMITS,
                **({signing.OPTION: signer} if signer is not None else {}),
            },
            "broker_transport": signing.TRANSPORT if signer is not None else None,
            "redis_socket_timeout": SILENT_SECONDS,
            "redis_socket_connect_timeout": SILENT_SECONDS,
            "redis_socket_keepalive": not broker.startswith("redis+socket"),  # a unix socket has none
            # Results are not read, so a send should not wait long for the server that keeps them.
            "result_backend_transport_options": {
                "retry_policy": {"max_retries": 4, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}
            },
            "timezone": "America/New_York",
        }
    )
    return app


def _checked(address: str) -> str:
    """Raises SettingError when Celery's client or redis-py cannot read it; neither connects yet."""
    client(address, 1.0).close()
    try:
        Connection(found := celery_url(address))
    except (KeyError, TypeError, ValueError):
        raise wrong_url(address) from None
    return found


def _queue(name: str) -> Queue:
    # Without an exchange and a key of its own a queue takes the default's, and then gets every message of the others.
    return Queue(name, Exchange(name, type="direct"), routing_key=name)


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


def stop_on_workers(app: Celery, run_ids: Sequence[str]) -> None:
    if not run_ids:
        return
    try:
        app.control.broadcast(STOP, arguments={"run_ids": list(run_ids)})
    except (OperationalError, RedisError, OSError) as error:
        raise RedisDown(f"the workers could not be notified: {error}") from None


def cancel_on_workers(app: Celery, parent_id: str, reason: str) -> None:
    try:
        app.control.broadcast(CANCEL, arguments={"reasons": {parent_id: reason}})
    except (OperationalError, RedisError, OSError) as error:
        log.warning("cancel.not_sent", parent=parent_id, error=str(error))


def interrupt_on_workers(app: Celery, thread_id: str, turn_id: str) -> bool:
    asked = {"thread_id": thread_id, "turn_id": turn_id}
    try:
        app.control.broadcast(
            INTERRUPT, arguments=asked, reply=True, timeout=ANSWER_SECONDS, callback=_raise_if_interrupted
        )
    except _TurnInterrupted:
        return True
    except (OperationalError, RedisError, OSError) as error:
        raise RedisDown(f"the workers could not be notified: {error}") from None
    return False


class _TurnInterrupted(Exception):
    """The end of the wait for answers: no other worker runs the same turn."""


def _raise_if_interrupted(reply: Mapping[str, Mapping[str, bool]]) -> None:
    if any(answer.get("interrupted") for answer in reply.values()):
        raise _TurnInterrupted


def request_pass(app: Celery, name: str) -> bool:
    """Request a pass now; False when that failed, and it comes with the next of the sweep's."""
    try:
        app.send_task(name, expires=EXPIRES_SECONDS, ignore_result=True, retry=False)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("pass.not_requested", task=name, error=str(error))
        return False
    return True


class WorkerNotifier:
    """A sender of messages with one Celery app, made by `make` with the first. Threads may share it."""

    def __init__(self, settings: Settings, make: Callable[[Settings], Celery] = sender_app) -> None:
        self._settings, self._make = settings, make
        self._lock = threading.Lock()
        self._made: Celery | None = None

    def stop(self, run_ids: Sequence[str]) -> None:
        """Raises RedisDown; workers then read it from the database within a third of a lease."""
        stop_on_workers(self.app(), run_ids)

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        return interrupt_on_workers(self.app(), thread_id, turn_id)

    def trade(self) -> bool:
        """Request an order pass of the trade queue now; False when that failed, and the pass comes within a minute."""
        try:
            return request_pass(self.app(), ORDER_PASS)
        except RedisDown:
            return False

    def app(self) -> Celery:
        """Return the app. Raises RedisDown when the server does not answer: Celery's own attempts would take longer."""
        wait_ready(redis_url(self._settings), REDIS_SECONDS)
        with self._lock:
            if self._made is None:
                self._made = self._make(self._settings)
            return self._made
