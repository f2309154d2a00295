"""Copies of a database as of one point in time, beside its writers: SQLite's by its online backup, Postgres's by COPY;
and their way back into an empty one."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import re
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, MetaData, Table, create_engine, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col

from chordesk.models.database.blobs import path_in_home
from chordesk.models.database.store import Store, every_table, upgrade
from chordesk.models.errors import BackupError, DatabaseDown, UsageError
from chordesk.models.states import RUN_LIVE
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import AuditAnchor, Order
from chordesk.models.tables.runs import Artifact, Run
from chordesk.models.tables.runtime import Rollout
from chordesk.models.urls import masked
from chordesk.tasks.backup.places import BackupCounts
from chordesk.tools.orders.audit import ChainAnchor


@dataclass(frozen=True, slots=True)
class Anchored:
    """A chain of the audit log, the place that opened it, and how far the database counts it."""

    chain: str
    place: str
    anchor: ChainAnchor


@dataclass(frozen=True, slots=True)
class Facts:
    counted: BackupCounts  # at: just before the point in time
    chains: list[Anchored]
    pictures: dict[str, str]  # paths within the data folder, by digest
    rollouts: set[str]  # digests of their blobs


def facts_of(connection: Connection, at: dt.datetime) -> Facts:
    anchors = connection.execute(
        select(
            col(AuditAnchor.chain), col(AuditAnchor.place), col(AuditAnchor.count), col(AuditAnchor.head),
            col(AuditAnchor.size),
        ).order_by(col(AuditAnchor.chain))
    )  # fmt: skip
    pictures = connection.execute(select(col(Artifact.digest), col(Artifact.kind)).distinct())
    open_runs = select(func.count()).select_from(Run).where(col(Run.state).in_(RUN_LIVE))
    counted = BackupCounts(
        at=at,
        revision=str(connection.execute(text("select version_num from alembic_version")).scalar_one()),
        runs=connection.execute(select(func.count()).select_from(Run)).scalar_one(),
        open_runs=connection.execute(open_runs).scalar_one(),
        orders=connection.execute(select(func.count()).select_from(Order)).scalar_one(),
    )
    return Facts(
        counted=counted,
        chains=[Anchored(chain, place, ChainAnchor(count, head, size)) for chain, place, count, head, size in anchors],
        pictures={digest: path_in_home(digest, kind) for digest, kind in pictures},
        rollouts=set(connection.execute(select(col(Rollout.digest)).distinct()).scalars()),
    )


# The form of pg_dump's plain text: the rows of a table between the statement that reads them and this line.
_END = b"\\.\n"
_COPY = re.compile(r'COPY "?[a-z_]+"? \([a-z0-9_", ]+\) FROM stdin;')
_LEVEL = 3  # a third longer than gzip's usual 6, in half of the time


def dump(store: Store, path: Path) -> Facts:
    """Copy the database as of one point in time, while writers go on. Raises BackupError, DatabaseDown."""
    try:
        return _dump_sqlite(store, path) if store.is_sqlite else _dump_postgres(store, path)
    except (SQLAlchemyError, _driver_error(store)) as error:
        raise DatabaseDown(f"the database cannot be copied: {' '.join(str(error).split())}") from None


def _driver_error(store: Store) -> type[Exception]:
    """Return the driver's own base error: what goes past SQLAlchemy raises it."""
    found: type[Exception] = store.engine.dialect.loaded_dbapi.Error
    return found


def _dump_sqlite(store: Store, path: Path) -> Facts:
    at = utcnow()
    pooled = store.engine.raw_connection()
    try:
        with contextlib.closing(sqlite3.connect(path)) as copy:
            pooled.driver_connection.backup(copy)  # type: ignore[union-attr]  # in one step: one view of all pages
            copy.execute("PRAGMA journal_mode=DELETE")  # all of it is in the one file
    finally:
        pooled.close()
    return _facts_of_file(path, at)


def _dump_postgres(store: Store, path: Path) -> Facts:
    """By the server's own COPY, in the form that psql reads: a client program would have to be of the server's
    version."""
    with store.read() as session, gzip.open(path, "wb", compresslevel=_LEVEL) as file:  # one view of all tables
        at, connection = utcnow(), session.connection()
        found = facts_of(connection, at)
        cursor = connection.connection.cursor()
        for table in every_table().values():
            begin = _copied(connection, table)
            file.write(f"COPY {begin} FROM stdin;\n".encode())
            with cursor.copy(f"COPY {begin} TO STDOUT") as rows:
                for block in rows:
                    file.write(block)
            file.write(_END)
    return found


def _copied(connection: Connection, table: Table) -> str:
    quoted = connection.dialect.identifier_preparer
    return f"{quoted.format_table(table)} ({', '.join(quoted.quote(column.name) for column in table.columns)})"


def _load_postgres(store: Store, path: Path) -> None:
    """Fill the empty tables of a database from such a copy, in one transaction. Raises BackupError."""
    try:
        with store.engine.begin() as connection, gzip.open(path, "rb") as file:
            cursor = connection.connection.cursor()
            # What the migration wrote is among the rows of the copy.
            cursor.execute(f"TRUNCATE {', '.join(map(connection.dialect.identifier_preparer.quote, every_table()))}")
            while line := file.readline():
                statement = line.decode().rstrip("\n")
                if _COPY.fullmatch(statement) is None:
                    raise ValueError(f"{statement[:80]!r} is not the begin of a table")
                with cursor.copy(statement.removesuffix(";")) as rows:
                    for row in iter(file.readline, _END):
                        if not row:
                            raise ValueError("it ends within a table")
                        rows.write(row)
    except (OSError, EOFError, ValueError, zlib.error, SQLAlchemyError, _driver_error(store)) as error:
        raise _unsound(path, _first_line(error)) from None


def _facts_of_file(path: Path, at: dt.datetime) -> Facts:
    with _plain(path) as connection:
        return facts_of(connection, at)


@contextlib.contextmanager
def _plain(path: Path) -> Iterator[Connection]:
    """Open a SQLite file as it is. A `Store` would change the file to its own way of writing."""
    engine = create_engine(URL.create("sqlite", database=str(path)))
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def require_sound(path: Path) -> None:
    """Check a SQLite file: its pages, and that no row refers to one that is not there. Raises BackupError."""
    try:
        with _plain(path) as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one()
            lost = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    except SQLAlchemyError as error:
        raise _unsound(path, " ".join(str(error).split())) from None
    if found != "ok":
        raise _unsound(path, str(found))
    if lost is not None:
        raise _unsound(path, f"a row of {lost[0]} refers to one of {lost[2]} that is not there")


def _unsound(path: Path, why: str) -> BackupError:
    return BackupError(f"{path.name} is not a sound database: {why}", remedy="use another backup")


def require_empty(url: str) -> None:
    """Raises UsageError when the database has tables already, DatabaseDown when it does not answer."""
    backend = make_url(url).get_backend_name()
    if backend == "sqlite":
        there = Path(make_url(url).database or "").exists()
    else:
        with contextlib.closing(Store(url)) as store:
            try:
                with store.read() as session:
                    query = "select 1 from information_schema.tables where table_schema = current_schema()"
                    there = session.execute(text(query)).first() is not None
            except SQLAlchemyError as error:
                raise DatabaseDown(f"the database {masked(url)} does not answer: {_first_line(error)}") from None
    if there:
        raise UsageError(f"the database {masked(url)} is not empty", remedy="name a new one: nothing is ever replaced")


@contextlib.contextmanager
def loaded(path: Path, url: str, revision: str) -> Iterator[None]:
    """The empty database of this URL gets the copy. Raises BackupError; then it is empty again."""
    if make_url(url).get_backend_name() == "sqlite":
        target = Path(make_url(url).database or "")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
        yield
        return
    try:
        upgrade(url, revision)
        with contextlib.closing(Store(url)) as store:
            _load_postgres(store, path)
        yield
    except BaseException:
        with contextlib.suppress(SQLAlchemyError):  # a server that is away is the error of the block already
            _drop_tables(url)
        raise


def _drop_tables(url: str) -> None:
    with contextlib.closing(Store(url)) as store, store.engine.begin() as connection:
        there = MetaData()
        there.reflect(connection)
        there.drop_all(connection)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
