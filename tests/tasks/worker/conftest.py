"""An app of this process over a database and a Redis database of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery
from kombu import pools

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.worker.app import create_app

# Other tests may use the same server; nothing else uses this database of it.
DATABASE = 7


@pytest.fixture
def address(redis_server: str) -> Iterator[str]:
    """The URL of an empty database on a real server."""
    url = f"{redis_server}?db={DATABASE}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        yield url
        client.flushdb()


@pytest.fixture
def make_app(tmp_path: Path, template_db: Path, address: str) -> Iterator[Callable[..., Celery]]:
    """Makes apps in one home; keyword arguments change settings, unchecked: tests want shorter limits."""
    shutil.copy(template_db, tmp_path / "desk.db")
    made: list[Celery] = []

    def make(**values: object) -> Celery:
        environ = {"DESK_HOME": str(tmp_path), "DESK_REDIS_URL": address}
        settings: Settings = load_settings(environ, tmp_path).model_copy(update=values)
        made.append(create_app(settings, f"test{len(made)}"))
        return made[-1]

    yield make
    for app in made:
        app.desk.close()
        app.close()
    pools.reset()  # kombu keeps connections, and what they have declared, for the next app of the same URL


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app()


@pytest.fixture
def store(app: Celery) -> Store:
    return app.desk.store
