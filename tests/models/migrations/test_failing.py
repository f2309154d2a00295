"""An upgrade that fails midway leaves the database as it was, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, inspect

from chordesk.models.database.store import current, upgrade
from tests.models.migrations.old_database import OldDatabase, insert, old_database
from tests.postgres import Server

LAST = "CREATE TABLE order_check"  # of the newest of several migrations, the first of which rebuild tables on SQLite


@contextmanager
def failing_at(beginning: str) -> Iterator[None]:
    """Let every connection refuse the statements that begin so."""

    def refuse(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.strip().startswith(beginning):
            raise RuntimeError("the disk is full")

    event.listen(Engine, "before_cursor_execute", refuse)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", refuse)


def seen(old: OldDatabase) -> dict[str, Any]:
    """Return the tables with their columns, and the runs."""
    found = inspect(old.engine)
    tables = {name: [column["name"] for column in found.get_columns(name)] for name in found.get_table_names()}
    return {**tables, "runs": old.rows("run")}


def an_upgrade_fails_and_is_repeated(url: str) -> None:
    with old_database(url, "0020") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
        before = seen(old)
        with failing_at(LAST), pytest.raises(RuntimeError, match="the disk is full"):
            upgrade(url)
        assert current(url)[0] == "0020"
        assert seen(old) == before
        upgrade(url)
        found, newest = current(url)
        assert found == newest
        assert [row["id"] for row in old.rows("run")] == ["r"]


def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path) -> None:
    an_upgrade_fails_and_is_repeated(f"sqlite:///{tmp_path / 'desk.db'}")


@pytest.mark.postgres
def test_an_upgrade_that_fails_changes_nothing_on_postgres(postgres: Server) -> None:
    an_upgrade_fails_and_is_repeated(postgres.empty())
