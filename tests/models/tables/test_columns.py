"""Column types, times and ids of all tables."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path

import pytest
from sqlalchemy.exc import StatementError

from chordesk.models.database.store import Store
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Run, Step
from tests.builders import a_run
from tests.databases import make_database


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'desk.db'}"
    make_database(found)
    return found


def test_times_come_back_aware_and_naive_ones_are_refused(url: str) -> None:
    store = Store(url)
    with store.session() as session:
        run_id = a_run(session).id
    with store.read() as session:
        assert session.get_one(Run, run_id).created_at.utcoffset() == dt.timedelta(0)
    with pytest.raises(StatementError, match="naive time"), store.session() as session:
        session.add(Step(run_id=run_id, kind="merge", state="ready", due_at=dt.datetime(2026, 1, 1)))


def test_ids_sort_by_time_and_never_repeat() -> None:
    spaced = []
    for _ in range(3):
        spaced.append(new_id())
        time.sleep(0.002)
    assert spaced == sorted(spaced)
    assert len({new_id() for _ in range(1000)}) == 1000


@pytest.mark.process
def test_ids_of_a_forked_process_are_its_own() -> None:
    """Workers and tests fork processes that have loaded the code."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, new_id().encode())
        os._exit(0)
    assert os.read(reading, 32).decode()[12:] != new_id()[12:]
    os.waitpid(child, 0)
