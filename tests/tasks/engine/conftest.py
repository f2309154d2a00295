"""An app of this process over a database and a Redis database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery
from kombu import pools

from chordesk.models.database.store import Store
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.worker.app import create_app

# Other tests may use the same server; nothing else uses this database of it.
DATABASE = 9


@pytest.fixture
def client(redis_server: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(f"{redis_server}?db={DATABASE}") as found:
        found.flushdb()
        yield found
        found.flushdb()


@pytest.fixture
def app(tmp_path: Path, store: Store, client: redis.Redis, redis_server: str) -> Iterator[Celery]:
    environ = {"DESK_HOME": str(tmp_path), "DESK_REDIS_URL": f"{redis_server}?db={DATABASE}"}
    made = create_app(load_settings(environ, tmp_path), "sweeper")
    yield made
    made.desk.close()
    made.close()
    pools.reset()  # kombu keeps connections, and what they have declared, for the next app of the same URL
