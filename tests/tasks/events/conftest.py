"""A database and a Redis for each test of events."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.database.store import Store, upgrade
from models.settings import Settings
from models.settings.sources import load_settings
from tests.tasks.events.kit import RedisServer


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty database file to copy: migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("events") / "desk.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def store(tmp_path: Path, migrated: Path) -> Iterator[Store]:
    shutil.copy(migrated, tmp_path / "desk.db")
    found = Store(f"sqlite:///{tmp_path / 'desk.db'}")
    yield found
    found.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings({"DESK_HOME": str(tmp_path)}, tmp_path)


@pytest.fixture
def redis_own() -> Iterator[RedisServer]:
    """A server that a test may kill and start again."""
    server = RedisServer()
    server.start()
    yield server
    server.kill()
    shutil.rmtree(server.folder, ignore_errors=True)
