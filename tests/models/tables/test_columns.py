"""Column types, times and ids of all tables."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pytest
from sqlalchemy import DateTime
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import StatementError

from chordesk.models.database.store import Store
from chordesk.models.tables.columns import Utc, new_id
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


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
        dt.datetime.min.replace(tzinfo=dt.UTC),
        dt.datetime.max.replace(tzinfo=dt.UTC),
    ],
)
def test_sqlite_holds_a_time_as_sqlalchemy_writes_it(moment: dt.datetime) -> None:
    """Rows from before are compared with new ones as texts."""
    written, usual = (
        kind.dialect_impl(sqlite.dialect()).bind_processor(sqlite.dialect()) for kind in (Utc(), DateTime())
    )
    assert written is not None
    assert usual is not None
    assert written(moment) == usual(moment.astimezone(dt.UTC).replace(tzinfo=None))


def test_ids_sort_by_time_and_never_repeat() -> None:
    spaced = []
    for _ in range(3):
        spaced.append(new_id())
        time.sleep(0.002)
    assert spaced == sorted(spaced)
    assert len({new_id() for _ in range(1000)}) == 1000
