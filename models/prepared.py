"""Statements that run many times a second, compiled once and handed to the driver as they are: SQLAlchemy's own way
from a statement to the driver costs several times what the statement does.

Many rows go in one statement. With a statement a row, a thread gives way to all others at each of them, and holds the
database's lock meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable, Table, bindparam, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

Values = Mapping[str, Any]
_Convert = Callable[[Any], Any]

# Rows of one statement, the most first: any number of rows makes few statements, and there are few to compile, which
# takes milliseconds for each.
SIZES = (32, 16, 8, 4, 2, 1)


class Prepared:
    """One statement for one dialect. Its parameters are converted as their columns' types say."""

    def __init__(self, statement: Executable, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        self._sql = str(compiled)
        self._names: Sequence[str] = compiled.positiontup or ()
        self._constants = {name: value for name, value in compiled.params.items() if value is not None}
        found = {name: bind.type.dialect_impl(dialect).bind_processor(dialect) for name, bind in compiled.binds.items()}
        self._converters: dict[str, _Convert] = {name: convert for name, convert in found.items() if convert}

    def run(self, connection: Connection, values: Values) -> CursorResult[Any]:
        converted = {**self._constants, **values}
        for name, convert in self._converters.items():
            converted[name] = convert(converted[name])
        # The drivers that count their parameters want a tuple; the others take them by name.
        parameters: Any = tuple([converted[name] for name in self._names]) if self._names else converted
        return connection.exec_driver_sql(self._sql, parameters)


class BulkInsert:
    """Inserts rows of a table, many a statement. replace: a row whose key is there takes its place; no two rows of one
    call may have the same key then. ended: the column that a row has once it has ended; one that has it is replaced by
    such rows alone."""

    def __init__(self, table: Table, dialect: Dialect, *, replace: bool = False, ended: str | None = None) -> None:
        self._table, self._dialect, self._replace, self._ended = table, dialect, replace, ended
        self._columns = [column.name for column in table.columns]
        self._statements: dict[int, Prepared] = {}

    def run(self, connection: Connection, rows: Sequence[Values]) -> None:
        start = 0
        for size in SIZES:
            while len(rows) - start >= size:
                some = rows[start : start + size]
                values = {
                    name: row[column] for names, row in zip(self._places, some, strict=False) for column, name in names
                }
                self._statement(size).run(connection, values)
                start += size

    @cached_property
    def _places(self) -> list[list[tuple[str, str]]]:
        """For each row of a statement its columns, and the parameters that they are."""
        return [[(column, f"{column}_{row}") for column in self._columns] for row in range(SIZES[0])]

    def _statement(self, count: int) -> Prepared:
        found = self._statements.get(count)
        if found is None:
            found = self._statements[count] = Prepared(self._insert(count), self._dialect)
        return found

    def _insert(self, count: int) -> Any:
        types = {column.name: column.type for column in self._table.columns}
        rows = [
            {column: bindparam(name, type_=types[column]) for column, name in names} for names in self._places[:count]
        ]
        insert = (sqlite if self._dialect.name == "sqlite" else postgresql).insert(self._table).values(rows)
        if not self._replace:
            return insert
        keys = [column.name for column in self._table.primary_key]
        changes = {name: insert.excluded[name] for name in self._columns if name not in keys}
        where = None
        if self._ended is not None:
            where = or_(self._table.c[self._ended].is_(None), insert.excluded[self._ended].is_not(None))
        return insert.on_conflict_do_update(index_elements=keys, set_=changes, where=where)
