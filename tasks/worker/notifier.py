"""Notifications to the workers from commands and the HTTP API. They make things quick; without Redis the workers read
the database."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from celery import Celery

from chordesk.models.errors import RedisDown
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import redis_url
from chordesk.tasks.redis_clients import wait_ready
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.control import interrupt_on_workers, stop_on_workers
from chordesk.tasks.worker.trading import request_order_pass

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
