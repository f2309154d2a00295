from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.agents.gateway import kit
from tests.agents.gateway.kit import Asked
from tests.fakes.local_server import LocalServer


@pytest.fixture
def server() -> Iterator[LocalServer]:
    """A model server on loopback with one model, `small`."""
    with LocalServer() as served:
        yield served


@pytest.fixture
def registry(redis_server: str) -> str:
    """The URL of an empty Redis."""
    client = redis.Redis.from_url(redis_server)
    client.flushall()
    client.close()
    return redis_server


@pytest.fixture
def asked(server: LocalServer, tmp_path: Path, registry: str) -> Asked:
    """Makes one turn on the server, and returns its end."""
    return partial(kit.asked, server, tmp_path, registry)
