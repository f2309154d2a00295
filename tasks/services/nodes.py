"""Whether Celery workers answer."""

from __future__ import annotations

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from models.errors import RedisDown, ServiceError

PING_SECONDS = 1.5


def check(app: Celery, names: frozenset[str]) -> None:
    """Raises ServiceError naming the nodes (worker@host) that do not answer a ping, RedisDown without a broker."""
    try:
        answers = app.control.ping(destination=sorted(names), timeout=PING_SECONDS, limit=len(names))
    except (OperationalError, RedisError) as error:
        raise RedisDown(f"the broker does not answer: {error}") from None
    missing = names - {name for answer in answers for name in answer}
    if missing:
        raise ServiceError(f"no answer from {', '.join(sorted(missing))}")
