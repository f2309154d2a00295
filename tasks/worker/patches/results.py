"""The result backend: it counts chords and nothing else. Results are read from the database."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.backends.redis import RedisBackend


class ChordCounter(RedisBackend):  # type: ignore[misc]
    """Celery keeps each result that may still come, and subscribes to it. Of a chord's header none ever comes, so a
    worker that sends chords would keep and subscribe to more of them with each candidate, for as long as it runs."""

    def add_pending_result(self, result: Any, weak: bool = False, start_drainer: bool = True) -> Any:
        return result


def use_chord_counter(app: Celery) -> None:
    """Make the backend of the app's Redis URL this one."""
    name = f"{ChordCounter.__module__}:{ChordCounter.__qualname__}"
    app.loader.override_backends = {"redis": name, "rediss": name}
