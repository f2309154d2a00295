from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.agents.codex.threads.vaults import Fleet, workers
from tests.fakes.responses import FakeResponses


@pytest.fixture
def fleet(model: FakeResponses, tmp_path: Path, registry: str) -> Fleet:
    """Makes runtimes with homes and connections of their own, on one model, one vault and one Redis."""
    return partial(workers, model, tmp_path, registry)
