"""Runs and steps by hand, and a look at the messages that wait in Redis."""

from __future__ import annotations

import base64
import datetime as dt
import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import redis
from celery import Celery

from chordesk.models.database.store import Store
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.kinds import QUEUES
from chordesk.tasks.engine.steps import NewStep
from chordesk.tasks.redis_clients import redis_url
from tests.builders import run_row
from tests.patience import PATIENCE


def opened(store: Store, *steps: NewStep, attempts: int = 2, **values: Any) -> tuple[Run, str]:
    """Open a run; its finish step waits for those of `steps` without a parent. Return the run and its finish step's
    id."""
    run, finish = run_row(**values), new_id()
    under = [step if step.parent else _under(step, finish) for step in steps]
    with store.session() as session:
        graph.open_run(session, run, finish, attempts)
        graph.add(session, run.id, under, attempts)
    return run, finish


def _under(step: NewStep, parent: str) -> NewStep:
    return NewStep(step.kind, parent, step.subject, step.role, step.payload, step.waits, step.id)


def get(store: Store, step_id: str) -> Step:
    with store.read() as session:
        return session.get_one(Step, step_id)


def get_run(store: Store, run_id: str) -> Run:
    with store.read() as session:
        return session.get_one(Run, run_id)


def change(store: Store, table: type[Step] | type[Run], row_id: str, **values: object) -> None:
    with store.session() as session:
        row = session.get_one(table, row_id)
        for name, value in values.items():
            setattr(row, name, value)


def ago(seconds: float) -> dt.datetime:
    return utcnow() - dt.timedelta(seconds=seconds)


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
