from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.database.store import Store
from tests.databases import make_database


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    make_database(url)
    found = Store(url)
    yield found
    found.close()
