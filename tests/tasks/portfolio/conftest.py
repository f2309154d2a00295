"""An empty database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.store import Store, upgrade


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    upgrade(url)
    made = Store(url)
    yield made
    made.close()
