from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.agents.codex.kit import FINAL, Codex, running
from tests.fakes.responses import FakeResponses, Text


@pytest.fixture
def model() -> Iterator[FakeResponses]:
    """A scriptable model on loopback; answers the final text when nothing else is scripted."""
    with FakeResponses(lambda _body: Text(FINAL)) as served:
        yield served


@pytest.fixture
def registry(redis_server: str) -> str:
    """The URL of an empty Redis."""
    client = redis.Redis.from_url(redis_server)
    client.flushall()
    client.close()
    return redis_server


@pytest.fixture
def codex(model: FakeResponses, tmp_path: Path, registry: str) -> Codex:
    """Makes a runtime on the model, with its home in the test's folder."""
    return partial(running, model, tmp_path, registry)
