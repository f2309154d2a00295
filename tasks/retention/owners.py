"""The run that each row belongs to, and the rows of other runs that it refers to: read off the tables' foreign keys."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, ForeignKey, FromClause, Select, Table, select

from chordesk.models.database.tables import every_table
from chordesk.tasks.retention.policy import EVIDENCE, ORDERS, RUN, SCORES

OF_RUNS = RUN | EVIDENCE | ORDERS | SCORES


class Owned(NamedTuple):
    """Rows of a table with the run that they belong to: `source` joins what leads there, `run` is the column."""

    source: FromClause
    run: ColumnElement[str]


@cache
def owned(name: str) -> Owned:
    """Return the rows of a table of runs with their run: by a column of its own, else by the row they belong to."""
    table = every_table()[name]
    if name == "run":
        return Owned(table, table.c.id)
    if "run_id" in table.c:
        return Owned(table, table.c.run_id)
    key = _owner(table)
    above = owned(key.column.table.name)
    return Owned(above.source.join(table, key.parent == key.column), above.run)


def _owner(table: Table) -> ForeignKey:
    """Return the foreign key to the row that a row belongs to: of those to rows of runs, the first."""
    keys = (key for column in table.columns for key in column.foreign_keys)
    return next(key for key in keys if key.column.table.name in OF_RUNS)


def rows_of(name: str, run_id: str) -> ColumnElement[bool]:
    """Return the condition that a row of this table belongs to a run, for a statement on the table alone."""
    table = every_table()[name]
    if name == "run":
        return table.c.id == run_id
    if "run_id" in table.c:
        return table.c.run_id == run_id
    key = _owner(table)
    return key.parent.in_(select(key.column).where(rows_of(key.column.table.name, run_id)))


def references() -> Iterator[Select[Any]]:
    """Yield statements of (run, other run) where a row of the one refers to a row of the other: no such other run may
    go while the one stays."""
    for name in sorted(OF_RUNS):
        for key in sorted(every_table()[name].foreign_keys, key=lambda key: key.parent.name):
            if key.column.table.name in OF_RUNS:
                statement = _reference(name, key)
                if statement is not None:
                    yield statement


def _reference(name: str, key: Any) -> Select[Any] | None:
    """Return the pairs of one foreign key; None where its rows are of one run by their nature."""
    here, parent = owned(name), key.column.table
    if parent.name == "run":
        return _pairs(here.source, here.run, key.parent) if key.parent is not here.run else None
    apart = parent.alias("other")
    if "run_id" not in apart.c:
        return None
    return _pairs(here.source.join(apart, key.parent == apart.c[key.column.name]), here.run, apart.c.run_id)


def _pairs(source: FromClause, run: ColumnElement[str], other: ColumnElement[str]) -> Select[Any]:
    pairs: Any = select(run, other).select_from(source).where(other != run)
    found: Select[Any] = pairs.distinct()
    return found
