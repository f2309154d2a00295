"""The database: one engine, short transactions and their retries, and the migrations.

SQLite runs in WAL mode with a busy timeout and foreign keys on. Its writers queue behind a lock of their process and
one of their host, because SQLite's busy handler sleeps and is not fair. Postgres needs neither.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import importlib
import os
import pkgutil
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import orjson
import structlog
from sqlalchemy import Connection, Engine, Table, create_engine, event, insert, inspect, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session, SQLModel

from chordesk.models import features, home, migrations, tables
from chordesk.models.database import feature_tables, page_sums, soundness
from chordesk.models.descriptions import is_ours
from chordesk.models.errors import DatabaseDown, DatabaseNew, DatabaseUnfit, DatabaseUnsound, SettingError
from chordesk.models.features import Feature, Keep
from chordesk.models.tables.columns import insert_for
from chordesk.models.urls import masked, require_database

if TYPE_CHECKING:
    from chordesk.models.events import Batch

# The queue of the writers of one SQLite database: over all threads of a process and all processes of a host.
#
# SQLite's own busy handler sleeps, up to a tenth of a second at a time, and asks again: with a few busy processes
# most of them would sleep while the database is free. Here the next one goes on a millisecond after a transaction
# has ended.

SUFFIX = "-queue"
PAUSE_SECONDS = 0.001  # between two attempts; one thread of each process makes them


class WriterQueue:
    """A lock on a file beside the database, for one thread of each process at a time. It orders the writers and
    protects nothing: that does SQLite's own lock, which a transaction takes all the same.

    The lock is the process's own: a forked child does not have it, and the kernel frees it when the process ends,
    however it ends. Where there can be no such file, as beside a database in memory or in a folder of another user's,
    SQLite's own way of waiting is left.
    """

    def __init__(self, database: str | None, most_seconds: float) -> None:
        """most_seconds: after which a writer leaves the queue, and asks SQLite, which has a limit and an error."""
        plain = database and database != ":memory:" and not database.startswith("file:")
        self._path = Path(f"{database}{SUFFIX}") if plain else None
        self._file: IO[bytes] | None = None
        self._most_seconds = most_seconds

    @contextmanager
    def turn(self) -> Iterator[None]:
        file = self._locked()
        try:
            yield
        finally:
            if file is not None:
                with suppress(ValueError):  # it was closed meanwhile, and its lock is free
                    fcntl.lockf(file, fcntl.LOCK_UN)

    def _locked(self) -> IO[bytes] | None:
        if self._path is None:
            return None
        try:
            if self._file is None:
                self._file = self._path.open("ab")
            return self._file if self._waited(self._file) else None
        except (OSError, ValueError):
            return None

    def _waited(self, file: IO[bytes]) -> bool:
        """Wait for the lock; False when a process that is suspended within a transaction, say, keeps it too long."""
        until = time.monotonic() + self._most_seconds
        while True:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # POSIX leaves it to the system which of the two it is
                if time.monotonic() > until:
                    return False
                time.sleep(PAUSE_SECONDS)
            else:
                return True

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


BUSY_SECONDS = 20
SHOWN = 5  # tables and columns that an error names
_READS = "desk_reads"
# A server that vanished is noticed within seconds, not when the kernel gives up after minutes.
_PSYCOPG = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
_JOINED: Any = {"join_transaction_mode": "rollback_only"}  # its close leaves the transaction as it is
_POOL = {"pool_pre_ping": True, "pool_size": 8, "max_overflow": 8, "pool_timeout": 120}


@dataclass(frozen=True, slots=True)
class _Whole:
    """A transaction that others are parts of. lock: for one thread at a time; session: has what all of them add."""

    connection: Connection
    session: Session
    lock: threading.RLock = field(default_factory=threading.RLock)


class Store:
    """The database of one process. Threads may share it; a forked child must make its own. make: a SQLite file that is
    not there is made, and its folder; else its absence is an error, for nothing but a start is to make a database."""

    def __init__(self, url: str, *, make: bool = False) -> None:
        self.url = url
        self.is_sqlite = _backend(url) == "sqlite"
        self.engine = _sqlite_engine(url, make) if self.is_sqlite else _server_engine(url)
        self.writer = _sqlite_writer(self.engine) if self.is_sqlite else self.engine
        # A deferred SQLite transaction reads one snapshot by itself.
        snapshot = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        self._reader = self.engine.execution_options(**snapshot)
        # Called with the events of each transaction that added some, after its commit, in the thread that committed.
        # They must neither block nor raise.
        self.on_commit: list[Callable[[Sequence[Batch]], None]] = []
        self._queue: AbstractContextManager[Any] = threading.Lock() if self.is_sqlite else nullcontext()
        self._writers = WriterQueue(make_url(url).database if self.is_sqlite else None, BUSY_SECONDS)
        self._whole: ContextVar[_Whole | None] = ContextVar("whole", default=None)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Yield one writing transaction: committed on leaving, rolled back on an error."""
        if (whole := self._whole.get()) is not None:
            with self._part(whole) as part:
                yield part
            return
        with self._alone() as session:
            yield session

    @contextmanager
    def _alone(self) -> Iterator[Session]:
        from chordesk.models import event_log  # what reads alone has no use for its tables

        with self._queue, Session(self.writer, expire_on_commit=False) as session:
            with self._writers.turn(), session.begin():
                yield session
                event_log.write(session)
            # Before the next writer of this process, so that listeners see batches in the order of the commits.
            if stored := event_log.added(session):
                for notify in self.on_commit:
                    notify(stored)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make the transactions of this context within the block one: each is a savepoint of it, and sees what those
        before it wrote. Their events are stored at its end."""
        with self._alone() as session:
            token = self._whole.set(_Whole(session.connection(), session))
            try:
                yield
            finally:
                self._whole.reset(token)

    @property
    def is_together(self) -> bool:
        return self._whole.get() is not None

    @contextmanager
    def _part(self, whole: _Whole) -> Iterator[Session]:
        from chordesk.models import event_log

        part = Session(whole.connection, expire_on_commit=False, join_transaction_mode="create_savepoint")
        with whole.lock, part as session, session.begin():
            yield session
            session.flush()
            event_log.hand_over(session, whole.session)

    @contextmanager
    def read(self) -> Iterator[Session]:
        whole = self._whole.get()
        place, lock = (whole.connection, whole.lock) if whole is not None else (self._reader, nullcontext())
        with lock, Session(place, expire_on_commit=False, autoflush=False, info={_READS: True}, **_JOINED) as session:
            yield session  # closing rolls back, and leaves what was read readable

    def apart(self) -> Store:
        return self if self.is_sqlite else Store(self.url)

    def close(self) -> None:
        self._writers.close()
        self.engine.dispose()
        self.writer.pool = self.engine.pool  # they share one, and the other engine just got a new one


def writes(session: Session) -> bool:
    """A read view locks nothing: on Postgres, locking fails for a row that was changed since the view began."""
    return _READS not in session.info


def insert_rows(session: Session, rows: Sequence[SQLModel], *, over: bool = False) -> None:
    """In one statement, without the session's tracking. over: rows of the same key are replaced."""
    if not rows:
        return
    table: Table = type(rows[0]).__table__  # type: ignore[attr-defined]
    new = insert(table)
    if over:
        new = insert_for(session.get_bind().dialect.name, table)
        values = {column.name: new.excluded[column.name] for column in table.columns if not column.primary_key}
        new = new.on_conflict_do_update(index_elements=list(table.primary_key), set_=values)
    session.connection().execute(new, [row.model_dump() for row in rows])


def _backend(url: str) -> str:
    try:
        require_database(url)
    except ValueError as error:
        raise SettingError(f"DESK_DATABASE_URL={masked(url)}: {error}") from None
    try:
        return make_url(url).get_backend_name()
    except (ArgumentError, ValueError):  # the parser's own message may hold a piece of a password
        remedy = "write postgresql+psycopg://USER:PASSWORD@HOST:PORT/NAME, with the password percent-encoded"
        raise SettingError(f"DESK_DATABASE_URL={masked(url)} is not a URL", remedy=remedy) from None


class _SqliteConnection(sqlite3.Connection):
    """A connection that knows which file it opened. Where another file or none is at the path by now, it stays open: to
    close it, SQLite would delete the write-ahead log at the path, which may be that of another database."""

    path, file = "", (0, 0)

    def is_in_place(self) -> bool:
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self.file

    def close(self) -> None:
        if self.is_in_place():
            super().close()
        else:
            _LEFT_OPEN.append(self)


_LEFT_OPEN: list[_SqliteConnection] = []
_OPTIONS: Any = {"check_same_thread": False, "timeout": BUSY_SECONDS}


def plain_file(url: str) -> Path | None:
    """Return the file of a SQLite database; None of one in memory, with options of its own, or on a server."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.query:
        return None
    return None if parsed.database == ":memory:" or parsed.database.startswith("file:") else Path(parsed.database)


def _connect(path: Path, make: bool) -> _SqliteConnection:
    if (why := home.why_still_away(path)) is not None:
        away = sqlite3.OperationalError(why)
        away.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN  # as of a file that is not there: it is waited for
        raise away
    address = f"file:{quote(os.path.abspath(path))}?mode={'rwc' if make else 'rw'}"
    connection = sqlite3.connect(address, uri=True, factory=_SqliteConnection, **_OPTIONS)
    found = os.stat(path)
    connection.path, connection.file = os.path.abspath(path), (found.st_dev, found.st_ino)
    return connection


def _require_in_place(connection: Any, record: Any, proxy: Any) -> None:
    if not connection.is_in_place():
        raise DisconnectionError("another file or none is in the database's place")  # the pool connects anew


def _sqlite_engine(url: str, make: bool) -> Engine:
    path = plain_file(url)
    if path is not None and make:
        _make_folder(path.parent)
    if path is None:
        engine = create_engine(url, connect_args=_OPTIONS, pool_timeout=120, json_serializer=_json_text)
    else:
        engine = create_engine(url, creator=lambda: _connect(path, make), pool_timeout=120, json_serializer=_json_text)
        event.listen(engine, "checkout", _require_in_place)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "handle_error", lambda context: soundness.mark_damage(url, context.original_exception))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _sqlite_writer(engine: Engine) -> Engine:
    """Return an engine on the same connections whose transactions hold the write lock from their begin."""
    writer = create_engine(engine.url, pool=engine.pool, json_serializer=_json_text)
    address = engine.url.render_as_string(hide_password=False)
    event.listen(writer, "handle_error", lambda context: soundness.mark_damage(address, context.original_exception))
    path = plain_file(address)

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        if path is not None:
            soundness.before_writing(path)

    event.listen(writer, "begin", begin)
    return writer


def _make_folder(folder: Path) -> None:
    try:
        home.make_folder(folder)
    except OSError as error:
        raise DatabaseDown(
            f"the database's folder {folder} cannot be made: {error.strerror}",
            remedy="set DESK_HOME to a folder you may write, or DESK_DATABASE_URL to another place",
        ) from None


def _json_text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _prepare_sqlite(connection: sqlite3.Connection, record: Any) -> None:
    # The driver's own transaction handling begins late and never IMMEDIATE, so we issue BEGIN ourselves.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={BUSY_SECONDS * 1000}"):
        connection.execute(f"PRAGMA {pragma}")


def _server_engine(address: str) -> Engine:
    url = make_url(address)
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")  # the driver of the extra, not the library's own default
    arguments = _PSYCOPG if url.drivername == "postgresql+psycopg" else {}
    try:
        return create_engine(url, connect_args=arguments, json_serializer=_json_text, **_POOL)
    except ModuleNotFoundError as error:
        raise SettingError(
            f"DESK_DATABASE_URL needs the driver {error.name}", remedy="pip install 'chordesk[postgres]'"
        ) from None


def upgrade(url: str, revision: str = "head", tell: Callable[[str], None] = lambda line: None) -> None:
    """To the newest schema, with the tables of features, or to this revision without them. Raises DatabaseUnfit for a
    schema that does not lead here or cannot be written. A package whose migration fails can keep nothing; the database
    is as it was before it. tell: takes a line before each package's migration, which may take any time where there are
    rows."""
    with closing(Store(url, make=True)) as store:
        was_empty = _upgrade_core(store, url, revision)
        if revision == "head":
            _upgrade_features(store, url, (lambda line: None) if was_empty else tell)


def _upgrade_core(store: Store, url: str, revision: str) -> bool:
    """Return whether it had no tables before."""
    found, newest = _revision(store), migrations.revisions()[-1]
    if found is not None and not knows(found):
        raise _of_another_version(url, found)
    if found == newest:
        _require_tables(store)
        _unseal(url)
        with _answering(store) as connection:
            _sign(connection)
        return False  # foreign keys, which are checked after a change, take time by the number of rows
    _unseal(url)
    with _answering(store) as connection, _foreign_keys_suspended(connection):
        # Loaded here: no other command but an upgrade has use for it.
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", migrations.written(migrations.VERSIONS.parent))
        config.attributes["connection"] = connection
        core_tables()  # what the metadata has is what Alembic sees
        command.upgrade(config, revision)
        if revision == "head":
            _sign(connection)
    return found is None


def _upgrade_features(store: Store, url: str, tell: Callable[[str], None]) -> None:
    with _answering(store) as connection:
        behind = [line for line in feature_tables.lines(connection) if not line.is_current]
    feature_tables.set_unready(line for line in behind if not line.is_known)
    every_table()  # notes packages whose tables do not fit, those that fitted once too
    for line in behind:
        if line.feature.name in features.unready():
            continue
        _unseal(url)
        tell(f"the tables of the feature {line.feature.name} are to be brought to revision {line.newest}")
        try:
            with store.engine.connect() as connection, features.loading(f"a migration of {line.feature.name}"):
                with _foreign_keys_suspended(connection):
                    connection.begin()  # so that Alembic does not commit before all of it is checked
                    feature_tables.migrate(connection, line)
                connection.commit()
        except BaseException as error:
            if is_ours(error):
                raise
            said = " ".join(str(getattr(error, "orig", None) or error).split())
            why = f"its migration to revision {line.newest} failed, {type(error).__name__}: {said}"
            remedy = "correct that, and run `desk db upgrade` again; its tables are as they were"
            features.set_unready(line.feature, why, remedy if features.is_own(line.feature) else "")


def _unseal(url: str) -> None:
    if (path := plain_file(url)) is not None:
        soundness.before_writing(path)


def seal(url: str) -> None:
    """Keep the sums of a SQLite file's pages, where no other process uses it: what changes from now on is found. One
    that is sealed or damaged keeps what it has."""
    path = plain_file(url)
    if path is None or not path.exists() or page_sums.sums_path(path).exists() or soundness.is_marked(path):
        return
    try:
        page_sums.seal(path)
    except (OSError, sqlite3.Error) as error:
        log.warning("database.no_sums", path=str(path), error=str(error))


def _of_another_version(url: str, found: str) -> DatabaseUnfit:
    newest = migrations.revisions()[-1]
    return DatabaseUnfit(
        f"the database {masked(url)} is at revision {found}, which this version (schema {newest}) does not know",
        remedy="use the version of the desk that wrote it, or name another place in DESK_HOME or DESK_DATABASE_URL",
    )


def _sign(connection: Connection) -> None:
    """A new desk's id, and which migrations made the tables: where others made them, indexes may be missing."""
    table = core_tables()["identity"]
    made_by = connection.execute(select(table.c.migrations)).scalar()
    if made_by == migrations.digest():
        return
    for one in core_tables().values():
        for index in one.indexes:
            index.create(connection, checkfirst=True)
    if made_by is None:
        made = {"id": 1, "desk": secrets.token_hex(8), "made_at": dt.datetime.now(dt.UTC), "migrations": ""}
        connection.execute(insert(table), [made])
    connection.execute(update(table).values(migrations=migrations.digest()))


def _require_tables(store: Store) -> None:
    """Raise DatabaseUnfit when the tables differ. They are compared only where other migrations made them."""
    with _answering(store) as connection:
        there = inspect(connection)
        if there.has_table("identity"):
            made_by = connection.exec_driver_sql("select migrations from identity").scalar()
            if made_by == migrations.digest():
                return
        differences = feature_tables.differences(there, core_tables())
    if differences:
        shown = "; ".join(differences[:SHOWN])
        more = f"; and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        raise DatabaseUnfit(
            f"the database {masked(store.url)} is of another version, though its revision is the same: {shown}{more}",
            remedy="use the version that wrote it, or name another place in DESK_HOME or DESK_DATABASE_URL",
        )


def desk_of(url: str) -> str:
    """Return the id of the desk whose database this is."""
    with closing(Store(url)) as store, _answering(store) as connection:
        return str(connection.exec_driver_sql("select desk from identity").scalar_one())


@contextmanager
def _foreign_keys_suspended(connection: Connection) -> Iterator[None]:
    """Suspend foreign keys on SQLite, which changes a table by rebuilding it; check them at the end."""
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        # On the driver's own connection: within a transaction, which SQLAlchemy would begin, it has no effect.
        connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
    yield
    if is_sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
        raise DatabaseDown(
            "the migration would leave rows without the rows they refer to", remedy="keep the database and report it"
        )


def current(url: str) -> tuple[str | None, str]:
    newest = migrations.revisions()[-1]
    if _never_made(url):
        return None, newest
    with closing(Store(url)) as store:
        return _revision(store), newest


def _never_made(url: str) -> bool:
    """Whether SQLite's file is not there but could be. It is not opened then: that would make it."""
    path = make_url(url).database if _backend(url) == "sqlite" else None
    if not path or path == ":memory:" or home.why_away(path) is not None:
        return False
    if home.why_unusable(Path(path).parent) is not None:
        return False
    try:
        there = next(one for one in (Path(path), *Path(path).parents) if one.exists())
    except OSError:
        return False  # opening it tells what is wrong
    return there != Path(path) and there.is_dir()


def _revision(store: Store) -> str | None:
    path = plain_file(store.url) if store.is_sqlite else None
    if path is not None and home.why_away(path) is None and not os.path.lexists(path):
        if (why := home.why_unusable(path.parent)) is not None:
            raise DatabaseDown(f"the database {path} cannot be read: {why}", remedy=home.UNUSABLE_REMEDY)
        return None
    with _answering(store) as connection:
        if not store.is_sqlite:
            _require_writable(connection, store.url)
        if not inspect(connection).has_table("alembic_version"):
            return None
        found: str | None = connection.exec_driver_sql("select version_num from alembic_version").scalar()
        return found


def _require_writable(connection: Connection, url: str) -> None:
    asked = "select pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'"
    replica, read_only = connection.exec_driver_sql(asked).one()
    if replica:
        problem, remedy = "is a replica, which takes no writes", "name its primary in DESK_DATABASE_URL"
    elif read_only:
        problem = "takes no writes: default_transaction_read_only is on for it or for this login"
        remedy = "reset it; a managed server sets it while its disk is full"
    else:
        return
    raise DatabaseUnfit(f"the database {masked(url)} {problem}", remedy=remedy)


_TOO_MUCH = """
select case when rolsuper then 'is a superuser'
            when rolcreaterole then 'may make logins'
            when pg_has_role(current_user, 'pg_execute_server_program', 'member') then 'may run programs on the server'
       end
from pg_roles where rolname = current_user
"""


def may_too_much(url: str) -> str | None:
    """Return what the login may do on its PostgreSQL beside the desk's own; None for a plain login, and for SQLite."""
    with closing(Store(url)) as store, _answering(store) as connection:
        found: str | None = None if store.is_sqlite else connection.exec_driver_sql(_TOO_MUCH).scalar()
    return found


def knows(revision: str) -> bool:
    return revision in migrations.revisions()


def open_current(url: str) -> Store:
    """Return the database. Raises DatabaseUnfit when its schema is not the one this code was written for, DatabaseNew
    when it has none; a file that is not there is not made."""
    nothing = DatabaseNew(f"no desk has run on the database {masked(url)}")
    if _never_made(url):
        path = plain_file(url)
        if path is not None and (why := home.why_taken(path.parent)) is not None:
            raise DatabaseDown(why, remedy=home.AWAY_REMEDY)
        raise nothing
    store = Store(url)
    try:
        found, newest = _revision(store), migrations.revisions()[-1]
        if found is None:
            raise nothing
        if not knows(found):
            raise _of_another_version(url, found)
        if found != newest:
            problem = f"the database {masked(url)} is at revision {found}, this version needs {newest}"
            raise DatabaseUnfit(problem, remedy="run `desk db upgrade`")
        _require_tables(store)
        if any(feature.migrations for feature in features.in_force()):
            with _answering(store) as connection:
                feature_tables.set_unready(feature_tables.lines(connection))
    except BaseException:
        store.close()
        raise
    return store


def require_current(url: str) -> None:
    open_current(url).close()


@contextmanager
def _answering(store: Store) -> Iterator[Connection]:
    url = store.url
    try:
        with store.engine.connect() as connection:
            yield connection
            connection.commit()
    except OperationalError as error:
        reason = _reason(error)
        remedy = "bring back the secrets that its volume was made with, or give it an empty one"
        strange = "password authentication failed" in reason
        raise DatabaseDown(f"the database does not answer: {reason}", remedy=remedy if strange else None) from None
    except DatabaseError as error:
        if (damage := soundness.corruption(error)) is not None:
            raise DatabaseUnsound(f"the database {masked(url)} is not sound: {damage}") from None
        raise DatabaseDown(
            f"the database {masked(url)} cannot be used: {_reason(error)}",
            remedy="name another one in DESK_DATABASE_URL, or move the present one away",
        ) from None


def _reason(error: DatabaseError) -> str:
    return " ".join(str(error.orig).split())


# Transactions that survive a lost database connection.
#
# A transaction is written whole or not at all, so it may be retried. If only the commit's answer was lost, the retry
# finds the step ended already and raises LeaseLost; nothing is written twice.

log = structlog.get_logger(__name__)
T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 3.0


# Errors of a database that is away, has no free connection, or refuses a statement.
AWAY = (DBAPIError, PoolTimeout)


def is_lost(error: Exception) -> bool:
    """True if the database was away, locked, out of connections, or chose this transaction to give way."""
    if isinstance(error, (OperationalError, InterfaceError, PoolTimeout)):
        return True
    return isinstance(error, DBAPIError) and error.connection_invalidated


def transact(store: Store, do: Callable[[Session], T], patience_seconds: float) -> T:
    """While the database is away, retry with growing pauses for `patience_seconds`; then raise its last error."""
    until = time.monotonic() + patience_seconds
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            with store.session() as session:
                return do(session)
        except DBAPIError as error:
            if not is_lost(error) or time.monotonic() + pause > until or store.is_together:
                raise
            log.warning("database.lost", error=str(error.orig), again_in_seconds=pause)
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def free_bytes(store: Store) -> int | None:
    if not store.is_sqlite:
        return None
    with _own_connection(store) as connection:
        free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size"))
        return int(free) * int(size)


def vacuum(store: Store) -> int:
    """Return how many bytes shorter the file is. No other process can write meanwhile. Raises DatabaseDown."""
    before = free_bytes(store) or 0
    try:
        with _own_connection(store) as connection:
            _unseal(store.url)
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        remedy = "end what uses the database, make as much space free as it takes, and try again"
        raise DatabaseDown(f"the database cannot be written anew: {error}", remedy=remedy) from None
    return before - (free_bytes(store) or 0)


@contextlib.contextmanager
def _own_connection(store: Store) -> Iterator[Any]:
    """Yield the driver's connection, outside any transaction: within one VACUUM is refused."""
    pooled = store.engine.raw_connection()
    try:
        yield pooled.driver_connection
    finally:
        pooled.close()


@cache
def core_tables() -> dict[str, Table]:
    for module in pkgutil.iter_modules(tables.__path__):
        importlib.import_module(f"{tables.__name__}.{module.name}")
    own = feature_tables.of_modules(tables.__name__)
    return {table.name: table for table in SQLModel.metadata.sorted_tables if table.name in own}


def every_table() -> dict[str, Table]:
    """Return the tables of the desk and of the features in force that can keep something, in the order of their
    references."""
    return _with_features(_keeping())


def rules() -> dict[str, tuple[Feature, Keep]]:
    """Return the rules of retention of features' tables, by table."""
    every_table()  # one that does not fit is left out
    return feature_tables.rules(_keeping())


def _keeping() -> tuple[str, ...]:
    unready = features.unready()
    return tuple(each.name for each in features.in_force() if each.tables and each.name not in unready)


@cache
def _with_features(names: tuple[str, ...]) -> dict[str, Table]:
    if not names:
        return core_tables()
    found = feature_tables.of_features(names, frozenset(core_tables())) | core_tables().keys()
    return {table.name: table for table in SQLModel.metadata.sorted_tables if table.name in found}


def feature_lines(url: str) -> tuple[list[feature_tables.Line], list[feature_tables.Kept]]:
    """Return the migrations of the features in force, and the tables of those that are not."""
    if _never_made(url):
        return [], []
    with closing(Store(url)) as store, _answering(store) as connection:
        return feature_tables.lines(connection), feature_tables.kept(connection, frozenset(core_tables()))
