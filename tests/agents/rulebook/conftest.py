from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.agents.rulebook.talk import Live


@pytest.fixture(scope="session")
def rulebook() -> Iterator[str]:
    """The base URL of a rulebook without latency."""
    with Live() as live:
        yield live.url


@pytest.fixture(scope="session")
def http(rulebook: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=rulebook, timeout=10) as client:
        yield client
