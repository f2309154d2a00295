"""Amounts of stored data: rows or files with their bytes, and the sizes of what a database holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, LargeBinary, Table, cast, func, literal_column, select, text
from sqlalchemy.exc import OperationalError
from sqlmodel import Session

from chordesk.models.database.artifacts import stored_files
from chordesk.models.database.store import Store, every_table
from chordesk.tasks.retention.policy import OF_RUNS, owned


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
    if not sqlite:
        return func.coalesce(func.sum(func.pg_column_size(literal_column(f'"{table.name}".*'))), 0)
    sizes = [func.coalesce(func.length(cast(column, LargeBinary)), 0) for column in table.columns]
    return cast(func.coalesce(func.sum(sum(sizes[1:], sizes[0])), 0), BigInteger)


def chosen(session: Session, table: Table, which: ColumnElement[bool]) -> Amount:
    size = content(table, session.get_bind().dialect.name == "sqlite")
    rows, found = session.execute(select(func.count(), size).select_from(table).where(which)).one()
    return Amount(int(rows), int(found))


# Without those of events, which are counted one by one.
_UNITS = {
    "turn": ("turn", "tool_call"), "tool call": ("tool_call",), "report": ("report",), "step": ("step", "attempt"),
    "checkpoint": ("graph_checkpoint", "graph_part", "graph_write"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows of a table, the bytes of their content, and those that the table takes with its indexes; None where the
    database does not report them."""

    name: str
    rows: int
    bytes: int
    stored: int | None


@dataclass(frozen=True, slots=True)
class UnitSize:
    """The bytes of content of one of a kind, on average over `count` of them. note: what they include."""

    name: str
    count: int
    bytes: int
    note: str

    @property
    def each(self) -> int | None:
        return round(self.bytes / self.count) if self.count else None


@dataclass(frozen=True, slots=True)
class Sizes:
    """database: bytes of the database in all, None where it does not report them."""

    database: int | None
    tables: list[TableSize]
    units: list[UnitSize]


def measure(store: Store, home: Path) -> Sizes:
    """Return the sizes of a database and of the pictures in a data folder. It reads each table once."""
    with store.read() as session:
        stored = _stored(session)
        found = [_table(session, table, stored) for table in every_table().values()]
        units = [*_runs(session), *_units(session, {one.name: one for one in found}), _events(session)]
    files = [path.stat().st_size for path, _, _ in stored_files(home)]
    units.append(UnitSize("picture", len(files), sum(files), "the file"))
    database = sum(stored.values()) if stored else None
    return Sizes(database, sorted(found, key=lambda one: -one.bytes), units)


def _table(session: Session, table: Table, stored: dict[str, int]) -> TableSize:
    size = content(table, _is_sqlite(session))
    rows, found = session.execute(select(func.count(), size).select_from(table)).one()
    return TableSize(table.name, int(rows), int(found), stored.get(table.name))


def _stored(session: Session) -> dict[str, int]:
    if not _is_sqlite(session):
        sizes = text("select relname, pg_total_relation_size(oid) from pg_class where relkind = 'r'")
        return {name: int(size) for name, size in session.execute(sizes) if name in every_table()}
    pages = text(
        "select m.tbl_name, sum(s.pgsize) from dbstat s join sqlite_schema m on m.name = s.name group by m.tbl_name"
    )
    try:
        return {name: int(size) for name, size in session.execute(pages)}
    except OperationalError:
        return {}


def _runs(session: Session) -> list[UnitSize]:
    kind = every_table()["run"].c.kind
    counts = {name: int(count) for name, count in session.execute(select(kind, func.count()).group_by(kind))}
    sizes = dict.fromkeys(counts, 0)
    for name in sorted(OF_RUNS):
        rows, table = owned(name), every_table()[name]
        run = every_table()["run"].alias("of")
        source = rows.source.join(run, run.c.id == rows.run)
        size = content(table, _is_sqlite(session))
        for of, found in session.execute(select(run.c.kind, size).select_from(source).group_by(run.c.kind)):
            sizes[of] += int(found)
    return [UnitSize(f"{name} run", counts[name], sizes[name], "all its rows") for name in sorted(counts)]


def _units(session: Session, found: dict[str, TableSize]) -> list[UnitSize]:
    units = [
        UnitSize(name, found[parts[0]].rows, sum(found[part].bytes for part in parts), _with(parts))
        for name, parts in _UNITS.items()
    ]
    blobs = found["blob"]
    return [*units, UnitSize("rollout", blobs.rows, blobs.bytes, "one copy, compressed, in the database")]


def _with(parts: tuple[str, ...]) -> str:
    return f"with its rows in {', '.join(parts[1:])}" if parts[1:] else "the row"


def _events(session: Session) -> UnitSize:
    batches = every_table()["event_batch"].c
    count, size = session.execute(
        select(func.sum(batches.last - batches.first + 1), func.sum(func.length(batches.events)))
    ).one()
    return UnitSize("event", int(count or 0), int(size or 0), "its share of the batch")


def _is_sqlite(session: Session) -> bool:
    return session.get_bind().dialect.name == "sqlite"
