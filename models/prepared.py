"""Statements that run many times a second, compiled once and handed to the driver as they are: SQLAlchemy's own way
from a statement to the driver and back costs several times what the statement does.

Many rows go in one statement. With a statement a row, a thread gives way to all others at each of them, and holds the
database's lock meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from sqlalchemy import Connection, Executable, Table, bindparam, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError

Values = Mapping[str, Any]
_Convert = Callable[[Any], Any]

ROWS = 32  # of one statement
_NAMED = re.compile(r"%\(\w+\)s")


class Prepared:
    """One statement for one dialect. Its parameters are converted as their columns' types say."""

    def __init__(self, statement: Executable, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        self._sql = str(compiled)
        self._names: Sequence[str] = compiled.positiontup or ()
        self._constants = {name: value for name, value in compiled.params.items() if value is not None}
        found = {name: bind.type.dialect_impl(dialect).bind_processor(dialect) for name, bind in compiled.binds.items()}
        self._converters: dict[str, _Convert] = {name: convert for name, convert in found.items() if convert}

    def row(self, connection: Connection, values: Values) -> Sequence[Any]:
        """The one row that it gives."""
        converted = {**self._constants, **values}
        for name, convert in self._converters.items():
            converted[name] = convert(converted[name])
        # The drivers that count their parameters want a tuple; the others take them by name.
        parameters: Any = tuple([converted[name] for name in self._names]) if self._names else converted
        with closing(_executed(connection, self._sql, parameters)) as cursor:
            found: Sequence[Any] = cursor.fetchone()
            return found


class BulkInsert:
    """Inserts rows of a table, ROWS a statement. replace: a row whose key is there takes its place; no two rows of one
    call may have the same key then. ended: the column that a row has once it has ended; one that has it is replaced by
    such rows alone."""

    def __init__(self, table: Table, dialect: Dialect, *, replace: bool = False, ended: str | None = None) -> None:
        # Of one row: compiling a statement of many rows takes milliseconds for each number of them.
        sql = str(_insert(table, dialect, replace, ended).compile(dialect=dialect))
        self._start, _, rest = sql.partition(" VALUES ")
        row, conflict, changes = rest.partition(" ON CONFLICT ")
        self._row, self._end = _NAMED.sub("%s", row), conflict + changes  # by place: one row is written as the other
        self._columns: list[tuple[str, _Convert | None]] = [
            (column.name, column.type.dialect_impl(dialect).bind_processor(dialect)) for column in table.columns
        ]

    def run(self, connection: Connection, rows: Sequence[Values]) -> None:
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            sql = f"{self._start} VALUES {', '.join([self._row] * len(some))}{self._end}"
            values = [convert(row[name]) if convert else row[name] for row in some for name, convert in self._columns]
            _executed(connection, sql, values).close()


def _executed(connection: Connection, sql: str, parameters: Any) -> Any:
    """The driver's cursor, as it is after this. Raises what SQLAlchemy does."""
    dialect, driver = connection.dialect, connection.dialect.loaded_dbapi
    cursor = connection.connection.cursor()
    try:
        cursor.execute(sql, parameters)
    except driver.Error as error:
        lost = dialect.is_disconnect(error, connection.connection, cursor)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            sql, parameters, error, driver.Error, connection_invalidated=lost, dialect=dialect
        ) from error
    return cursor


def _insert(table: Table, dialect: Dialect, replace: bool, ended: str | None) -> Any:
    row = {column.name: bindparam(column.name, type_=column.type) for column in table.columns}
    insert = (sqlite if dialect.name == "sqlite" else postgresql).insert(table).values(row)
    if not replace:
        return insert
    keys = [column.name for column in table.primary_key]
    changes = {name: insert.excluded[name] for name in row if name not in keys}
    where = None
    if ended is not None:
        where = or_(table.c[ended].is_(None), insert.excluded[ended].is_not(None))
    return insert.on_conflict_do_update(index_elements=keys, set_=changes, where=where)
