"""Amounts of stored data: rows or files, and the bytes of their content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, LargeBinary, Table, cast, func, literal_column, select
from sqlmodel import Session


@dataclass(frozen=True, slots=True)
class Amount:
    """Rows, events or files of one kind, and the bytes of their content, without indexes and the pages' free space."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.rows + other.rows, self.bytes + other.bytes)


Amounts = dict[str, Amount]  # by table, or by the name of what are files


def added(*parts: Amounts) -> Amounts:
    """Return the sum of amounts by their names, without empty ones."""
    found: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, Amount()) + amount
    return {name: amount for name, amount in found.items() if amount.rows or amount.bytes}


def total(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, Amount())


def content(table: Table, sqlite: bool) -> ColumnElement[Any]:
    """Return the sum of the bytes of the selected rows' content: on Postgres as it stores them, compressed where it
    does so."""
    if not sqlite:
        return func.coalesce(func.sum(func.pg_column_size(literal_column(f'"{table.name}".*'))), 0)
    sizes = [func.coalesce(func.length(cast(column, LargeBinary)), 0) for column in table.columns]
    return cast(func.coalesce(func.sum(sum(sizes[1:], sizes[0])), 0), BigInteger)


def chosen(session: Session, table: Table, which: ColumnElement[bool]) -> Amount:
    """Return the amount of a table's rows that meet a condition."""
    size = content(table, session.get_bind().dialect.name == "sqlite")
    rows, found = session.execute(select(func.count(), size).select_from(table).where(which)).one()
    return Amount(int(rows), int(found))
