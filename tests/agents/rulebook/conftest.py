from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.agents.rulebook.turns import Live
from tests.patience import PATIENCE


@pytest.fixture(scope="session")
def rulebook() -> Iterator[str]:
    """The base URL of a rulebook without latency."""
    with Live() as live:
        yield live.url


@pytest.fixture(scope="session")
def http(rulebook: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=rulebook, timeout=PATIENCE) as client:
        yield client
