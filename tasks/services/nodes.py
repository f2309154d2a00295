"""Pings of Celery workers."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from models.errors import RedisDown, ServiceError

PING_SECONDS = 1.5


def check(app: Celery, names: frozenset[str]) -> None:
    """Raise ServiceError naming the nodes (worker@host) that do not answer a ping, RedisDown without a broker."""
    missing = names - _answers(app, destination=sorted(names), limit=len(names))
    if missing:
        raise ServiceError(f"no answer from {', '.join(sorted(missing))}")


def first(app: Celery, pattern: str) -> str:
    """Return the first node to answer with a matching name; `*` stands for anything. Raises as `check` does."""
    found = _answers(app, pattern=pattern, matcher="glob", limit=1)
    if not found:
        remedy = "start it, or name another with --name; `desk up` shows which run"
        raise ServiceError(f"no answer from {pattern}", remedy=remedy)
    return min(found)


def _answers(app: Celery, **asked: Any) -> set[str]:
    try:
        answers = app.control.ping(timeout=PING_SECONDS, **asked)
    except (OperationalError, RedisError) as error:
        raise RedisDown(f"the broker does not answer: {error}") from None
    return {name for answer in answers for name in answer}
