"""Settings and a Redis for each test of events."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from tests.tasks.events.kit import RedisServer


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
