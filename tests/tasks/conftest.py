"""The kinds of runs and steps, which an app registers too, for tests without one; and a session of a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import Session

import chordesk.tasks.workflows  # noqa: F401
from chordesk.models.database.store import Store
from tests.databases import make_database
from tests.tasks.views.chain import Chain, a_chain


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    make_database(url)
    store = Store(url)
    with store.session() as opened:
        yield opened
    store.close()


@pytest.fixture
def chain(session: Session) -> Chain:
    return a_chain(session)
