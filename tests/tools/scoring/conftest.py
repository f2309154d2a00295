"""A session of a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import Session

from chordesk.models.database.store import Store
from tests.databases import make_database


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    make_database(url)
    store = Store(url)
    with store.session() as opened:
        yield opened
    store.close()
