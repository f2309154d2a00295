"""Word to the workers from a process that is none: it makes things quick, and nothing rests on it. Without Redis the
workers find out by themselves."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from celery import Celery

from models.errors import RedisDown
from models.settings import Settings
from tasks.app import create_app
from tasks.bootstrap import redis_url
from tasks.services.redis import wait_ready
from tasks.stopping import tell_workers
from tasks.trading import nudge

REDIS_SECONDS = 1.0


class Messenger:
    """One Celery app, made with the first word. Threads may share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._made: Celery | None = None

    def stop(self, run_ids: Sequence[str]) -> None:
        """Have the workers interrupt what they hold of these runs. Raises RedisDown; they find the mark in the
        database within a third of a lease then."""
        tell_workers(self._app(), run_ids)

    def trade(self) -> bool:
        """Have the trade queue look at its orders now; False when it was not told, and looks when its minute comes."""
        try:
            return nudge(self._app())
        except RedisDown:
            return False

    def _app(self) -> Celery:
        """Raises RedisDown when the server does not answer: Celery's own attempts would take longer to say so."""
        wait_ready(redis_url(self._settings), REDIS_SECONDS)
        with self._lock:
            if self._made is None:
                self._made = create_app(self._settings, "cli")
            return self._made
