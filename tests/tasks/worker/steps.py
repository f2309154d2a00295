"""Runs of a worker, and a look at the messages that wait in Redis."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import redis
from celery import Celery

from chordesk.models.database.store import Store
from chordesk.models.tables.runs import Run
from chordesk.tasks.engine.kinds import QUEUES
from chordesk.tasks.redis_clients import redis_url
from tests.patience import PATIENCE


def get_run(store: Store, run_id: str) -> Run:
    with store.read() as session:
        return session.get_one(Run, run_id)


def logged(lines: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Log lines, but for those of events: a thread of its own writes them, whenever it comes to it."""
    return [line for line in lines if not line["event"].startswith("event")]


def client_of(app: Celery) -> redis.Redis:
    return redis.Redis.from_url(redis_url(app.desk.settings))


def queued(app: Celery) -> dict[str, list[tuple[str, list[Any]]]]:
    """The messages that wait, by queue: task name and arguments, the oldest first."""
    with client_of(app) as client:
        waiting = {queue: client.lrange(queue, 0, -1)[::-1] for queue in QUEUES}
    return {queue: [_task(raw) for raw in messages] for queue, messages in waiting.items() if messages}


def _task(raw: bytes) -> tuple[str, list[Any]]:
    message = json.loads(raw)
    arguments = json.loads(base64.b64decode(message["body"]))[0]
    return message["headers"]["task"], arguments


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for something that must come soon."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
