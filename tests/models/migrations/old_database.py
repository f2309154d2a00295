"""Databases of older revisions, with rows, which a test brings up and down."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import JSON, Connection, create_engine, inspect, text

from chordesk.models.database.store import _alembic

AT = "2026-01-01 00:00:00.000000"


class OldDatabase:
    """Database that goes from one revision to another."""

    def __init__(self, url: str) -> None:
        self.url, self.engine = url, create_engine(url)

    def upgrade(self, revision: str) -> None:
        self._migrate(command.upgrade, revision)

    def downgrade(self, revision: str) -> None:
        self._migrate(command.downgrade, revision)

    def rows(self, table: str) -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(text(f'select * from "{table}"')).mappings()]

    def value(self, query: str) -> Any:
        with self.engine.connect() as connection:
            return connection.execute(text(query)).scalar_one()

    def _migrate(self, change: Callable[[Config, str], None], revision: str) -> None:
        with self.engine.connect() as connection:
            config = _alembic(self.url)
            config.attributes["connection"] = connection
            change(config, revision)
            connection.commit()


@contextmanager
def old_database(url: str, revision: str) -> Iterator[OldDatabase]:
    """Yield an empty database at a revision."""
    made = OldDatabase(url)
    made.upgrade(revision)
    try:
        yield made
    finally:
        made.engine.dispose()


def insert(connection: Connection, table: str, **given: Any) -> None:
    """Insert a row with what is given, and with something in every other column that must have a value."""
    plain: dict[type, Any] = {int: 0, float: 0.0, bool: False, dt.datetime: AT, JSON().python_type: "[]"}
    columns = [row for row in inspect(connection).get_columns(table) if not row["nullable"] and not row["default"]]
    needed = {row["name"]: plain.get(row["type"].python_type, "x") for row in columns}
    put(connection, table, **{**needed, **given})


def put(connection: Connection, table: str, **values: Any) -> None:
    names, marks = ", ".join(f'"{name}"' for name in values), ", ".join(f":{name}" for name in values)
    connection.execute(text(f'insert into "{table}" ({names}) values ({marks})'), values)
