"""Making a backup while the desk works, and restoring one.

The point in time is that of the database's copy. Whatever a row refers to was in a file before the row was written, and
neither pictures nor blobs nor the lines of the audit log ever change: so the files are copied after the database, and
hold all that its rows refer to. What came later is left out: pictures and blobs that no row of the copy names, and the
lines of the audit log beyond the anchor in the copy.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import os
import re
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, MetaData, Table, create_engine, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col

from chordesk.models.database import feature_tables, soundness
from chordesk.models.database.blobs import path_in_home, removed_at
from chordesk.models.database.store import Store, core_tables, current, knows, upgrade
from chordesk.models.errors import BackupError, DatabaseDown, DatabaseUnsound, DeskError, UsageError
from chordesk.models.home import why_unusable
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_LIVE
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import AuditAnchor, Order
from chordesk.models.tables.runs import Artifact, Run
from chordesk.models.tables.runtime import Rollout
from chordesk.models.text import utc
from chordesk.models.urls import masked
from chordesk.tasks.backup import places
from chordesk.tasks.backup.places import DATABASES, BackupChain, BackupCounts, BackupPlace, Manifest
from chordesk.tasks.reading.chain import chain
from chordesk.tools.orders import audit, halting
from chordesk.tools.orders import halting as disarming
from chordesk.tools.orders.accounts import account_names
from chordesk.tools.orders.audit import CHAIN, LOG, ChainAnchor, chain_of, log_path
from chordesk.tools.orders.audit_reading import check_logs, read_accepted
from chordesk.tools.orders.halting import halt_file

AUDIT, BLOBS = "audit", "blobs"
SECRETS = (
    "secrets: keys of brokers and models, the service's token, the mandate's signing key, logins, desk.toml and .env",
    "Redis: messages, and which thread is current; steps are sent again and roles start new threads",
)


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that is complete, and the bytes of its files. leftovers: what others beside it left that were killed."""

    place: str
    manifest: Manifest
    bytes: int
    leftovers: list[str]


def backup(settings: Settings, store: Store, address: str, version: str | None) -> Made:
    """A new folder or fsspec address. Raises UsageError when something is there; BackupError, DatabaseDown leave no
    backup, as does a database that is not sound: it would be taken for a good one until it is needed."""
    place = BackupPlace(address)
    place.require_empty()
    kind = "sqlite" if store.is_sqlite else "postgresql"
    with place.filled() as folder:
        try:
            soundness.require(settings)
            if (no_log := audit.why_no_file(settings)) is not None:
                raise BackupError(no_log, remedy="then make the backup")
            facts = dump(store, folder / DATABASES[kind])
            _require_restorable(settings, folder / DATABASES[kind])
            found = _Copies(settings, folder, facts)
            found.audit_log()
            found.halt()
            found.pictures()
            found.blobs()
            files = [places.file_of(folder, path.relative_to(folder).as_posix()) for path in _files(folder)]
        except OSError as error:
            raise BackupError(
                f"{error.filename or folder} cannot be copied: {error.strerror}",
                remedy="make some space, and try again",
            ) from None
        made = Manifest(
            **dict(facts.counted), format=places.FORMAT, version=version, database=kind, chains=found.chains,
            files=files, removed=found.removed, missing=sorted(found.missing), left_out=[*SECRETS, *found.left_out],
        ).sealed()  # fmt: skip
        (folder / places.MANIFEST_NAME).write_bytes(places.written_manifest(made))
    return Made(place.name, made, sum(file.bytes for file in files), place.leftovers())


def _require_restorable(settings: Settings, copy: Path) -> None:
    """Check the copy as a restore does. Raises BackupError; then the database is marked, which ends its steps."""
    if copy.suffix != ".sqlite":
        return
    found = soundness.look_at_file(copy, whole=True)
    if found.why is not None:
        soundness.mark(soundness.mark_path(settings), found.why)
        raise BackupError(
            f"the database {masked(settings.database)} is not sound, and a copy of it could not be restored: "
            f"{found.why}",
            remedy=f"no backup was made, keep the earlier ones; {DatabaseUnsound.remedy}",
        )


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


class _Copies:
    """The files of a data folder that belong to a copy of its database, copied into a folder."""

    def __init__(self, settings: Settings, folder: Path, facts: Facts) -> None:
        self._settings, self._folder, self._facts = settings, folder, facts
        self.chains: list[BackupChain] = []
        self.removed: dict[str, dt.datetime] = {}
        self.missing: list[str] = []
        self.left_out: list[str] = []

    def audit_log(self) -> None:
        own = self._own_chain()
        for known in self._facts.chains:
            if known.chain != own:
                self.chains.append(self._elsewhere(known))
                continue
            problems = self._cut(known)
            self.chains.append(
                BackupChain(
                    chain=known.chain, place=known.place, lines=known.anchor.count, included=True, problems=problems
                )
            )

    def _own_chain(self) -> str | None:
        with suppress(OSError, UnicodeError):
            if log_path(self._settings).exists():
                return chain_of(log_path(self._settings).parent)
        return None

    def _elsewhere(self, known: Anchored) -> BackupChain:
        self.left_out.append(
            f"the audit log of {known.place} ({known.anchor.count} lines): copy its folder `audit` too"
        )
        return BackupChain(chain=known.chain, place=known.place, lines=known.anchor.count, included=False)

    def _cut(self, known: Anchored) -> list[str]:
        source, target = log_path(self._settings), self._folder / AUDIT
        target.mkdir()
        shutil.copyfile(source.parent / CHAIN, target / CHAIN)
        with source.open("rb") as log:
            lines = log.read(known.anchor.size)
        (target / LOG).write_bytes(lines)
        return read_accepted(lines, known.anchor)[0].problems

    def halt(self) -> None:
        with suppress(FileNotFoundError):
            shutil.copyfile(halt_file(self._settings), self._folder / "HALT")

    def pictures(self) -> None:
        for digest, path in sorted(self._facts.pictures.items()):
            target = self._folder / path
            target.parent.mkdir(exist_ok=True)
            try:
                shutil.copyfile(self._settings.home / path, target)
            except FileNotFoundError:
                at = removed_at(self._settings.home, path)
                if at is not None:
                    self.removed[digest] = at
                else:
                    self.missing.append(path)

    def blobs(self) -> None:
        """Copy the blobs that rows name from a folder within the data folder; name a place elsewhere."""
        if self._settings.blob_url is None:
            return  # they are in the database
        stored = BackupPlace(self._settings.blob_url)
        if stored.folder is None or not stored.folder.resolve().is_relative_to(self._settings.home.resolve()):
            self.left_out.append(f"rollouts: they are in DESK_BLOB_URL={stored.name}, which needs a backup of its own")
            return
        for digest in sorted(self._facts.rollouts):
            name = f"{digest[:2]}/{digest}"
            target = self._folder / BLOBS / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(stored.folder / name, target)
            except FileNotFoundError:
                self.missing.append(f"{BLOBS}/{name}")


# May be in the data folder before: a person's settings, and what a file system has at its root.
ALLOWED = frozenset({"desk.toml", ".env", "lost+found"})
STAGE = ".restoring"


@dataclass(frozen=True, slots=True)
class Restored:
    """A desk as it was at a point in time, halted."""

    manifest: Manifest
    home: str
    upgraded_from: str | None  # schema revision of an older backup
    halted: list[str]  # accounts
    disarmed: list[int]  # versions of mandates that were in force
    lines: int  # of the audit log that were verified
    broken: list[str]  # what is wrong with the audit log, as it was when the backup was made; then it stays halted


def restore(settings: Settings, address: str, by: str) -> Restored:
    """Raises UsageError when a place is not empty, BackupError when the backup is not whole; then both are empty
    again."""
    place = BackupPlace(address)
    manifest = place.manifest()
    _require_fit(manifest, settings)
    _require_empty(settings.home)
    require_new_database(settings.database)
    with _own_until_done(settings):
        stage = settings.home / STAGE
        stage.mkdir(parents=True)
        for file in manifest.files:
            place.fetch(file, stage)
        copy = stage / DATABASES[manifest.database]
        if manifest.database == "sqlite":
            require_sound(copy)
        # First of all: with it no process of this data folder trades, whatever else is there by then.
        halting.write_file(settings, _why(manifest, stage), by)
        _move_files(settings, manifest, stage)
        with loaded(copy, settings.database, manifest.revision):
            upgrade(settings.database)
            with contextlib.closing(Store(settings.database)) as store:
                lines, broken = _verify(store, settings, manifest)
                halted, disarmed = _halt(store, settings, manifest, by)
        shutil.rmtree(stage)
    _, newest = current(settings.database)
    older = manifest.revision if manifest.revision != newest else None
    return Restored(manifest, str(settings.home), older, halted, disarmed, lines, broken)


def verify(settings: Settings, address: str, by: str) -> Restored:
    """Restore a backup of SQLite into a temporary folder, open it there and compare its counts; the folder is gone
    afterwards. Raises BackupError, and UsageError for one of PostgreSQL, which needs an empty database."""
    if BackupPlace(address).manifest().database != "sqlite":
        raise UsageError(
            "a backup of PostgreSQL is tried in an empty database", remedy="desk restore PLACE --into postgresql://..."
        )
    with tempfile.TemporaryDirectory(prefix="desk-verify-") as folder:
        trial = settings.model_copy(update={"home": Path(folder) / "desk", "database_url": None})
        done = restore(trial, address, by)
        path = Path(make_url(trial.database).database or "")
        there, wanted = _facts_of_file(path, done.manifest.at).counted, done.manifest
    for name in ("runs", "open_runs", "orders"):
        if getattr(there, name) != getattr(wanted, name):
            raise BackupError(
                f"the backup has {getattr(there, name)} {name} when it is restored, and its manifest says "
                f"{getattr(wanted, name)}",
                remedy="use another backup",
            )
    return done


def _require_fit(manifest: Manifest, settings: Settings) -> None:
    kind = "sqlite" if settings.database.startswith("sqlite") else "postgresql"
    if kind != manifest.database:
        raise UsageError(
            f"the backup is of a {manifest.database} database, and this one is {kind}",
            remedy="name one of that kind: --into FOLDER for sqlite, --into postgresql+psycopg://... for postgresql",
        )
    if DATABASES[kind] not in {file.path for file in manifest.files}:
        made_by = manifest.version or "an older version"
        raise UsageError(
            f"the backup has no {DATABASES[kind]}: it was made by pg_dump with chordesk {made_by}",
            remedy=f"restore it with chordesk {made_by}",
        )
    if not knows(manifest.revision):
        made_by = f"chordesk {manifest.version}" if manifest.version else "a newer version"
        raise UsageError(
            f"the backup's schema {manifest.revision} is newer than this version's",
            remedy=f"install {made_by}, which made it, or one after it",
        )


def _require_empty(home: Path) -> None:
    if (why := why_unusable(home, os.R_OK | os.W_OK | os.X_OK)) is not None:
        raise UsageError(why, remedy="name another folder: --into FOLDER")
    try:
        there = sorted(set(os.listdir(home)) - ALLOWED)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"{home} cannot be read: {error.strerror}", remedy="name another folder: --into FOLDER"
        ) from None
    if there:
        raise UsageError(
            f"{home} is not empty: it has {', '.join(there[:5])}", remedy="restore into a new folder: --into FOLDER"
        )


@contextlib.contextmanager
def _own_until_done(settings: Settings) -> Iterator[None]:
    """Leave the data folder as empty as it was when the block fails, and with it a SQLite database."""
    made = not settings.home.exists()
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield
    except BaseException as error:
        _empty(settings, made)
        if isinstance(error, OSError):
            raise BackupError(
                f"{error.filename or settings.home} cannot be written: {error.strerror}", remedy="make some space there"
            ) from None
        raise


def _empty(settings: Settings, made: bool) -> None:
    url = make_url(settings.database)
    if url.get_backend_name() == "sqlite" and url.database:
        for end in ("", "-wal", "-shm", "-queue", "-journal", f"-{soundness.MARK}"):
            Path(f"{url.database}{end}").unlink(missing_ok=True)
    for entry in settings.home.iterdir() if settings.home.is_dir() else ():
        if entry.name not in ALLOWED:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    if made:
        with contextlib.suppress(OSError):
            settings.home.rmdir()


def _why(manifest: Manifest, stage: Path) -> str:
    before = stage / "HALT"
    was = f"; halted before: {' '.join(before.read_text(errors='replace').split())}" if before.exists() else ""
    return f"{_reason(manifest)}: reconcile with the broker first{was}"


def _move_files(settings: Settings, manifest: Manifest, stage: Path) -> None:
    """Move all files but the database to their places, and note the pictures that retention had removed."""
    for name in (AUDIT, "artifacts", BLOBS):
        if (stage / name).exists():
            shutil.move(stage / name, settings.home / name)
    for digest, at in manifest.removed.items():
        mark = settings.home / "artifacts" / f"{digest}.removed"
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
        os.utime(mark, (at.timestamp(), at.timestamp()))


def _verify(store: Store, settings: Settings, manifest: Manifest) -> tuple[int, list[str]]:
    """Check the audit log and each order's lineage; return how many lines are of whole logs, and what is wrong with
    those that were not whole already. Raises BackupError."""
    lines, broken = 0, list[str]()
    for checked in check_logs(store, settings, whole=True):
        known = manifest.chain(checked.chain)
        if known is not None and not known.included:
            continue  # its file is on another host
        if checked.reading.problems and (known is None or not known.problems):
            raise BackupError(
                f"the audit log of the backup is not whole: {checked.reading.problems[0]}", remedy="use another backup"
            )
        broken += checked.reading.problems
        lines += checked.count if checked.whole else 0
    with store.read() as session:
        _verify_lineage(session)
    return lines, broken


def _verify_lineage(session: Session) -> None:
    orders = session.execute(select(col(Order.id), col(Order.run_id), col(Order.symbol))).all()
    for run_id, symbol in sorted({(run_id, symbol) for _, run_id, symbol in orders}):
        ids = {order_id for order_id, of_run, of_symbol in orders if (of_run, of_symbol) == (run_id, symbol)}
        try:
            found = chain(session, session.get_one(Run, run_id), symbol)
        except DeskError as error:
            raise _no_lineage(min(ids), str(error.args[0])) from None
        lost = ids - {node.id for node in found.nodes_of("order")}
        if lost:
            raise _no_lineage(min(lost), "its decision is not there")


def _no_lineage(order_id: str, why: str) -> BackupError:
    return BackupError(f"the lineage of order {order_id} does not resolve: {why}", remedy="use another backup")


def _halt(store: Store, settings: Settings, manifest: Manifest, by: str) -> tuple[list[str], list[int]]:
    """Halt every account, deny what waits to be sent, and take all mandates back: their state since is not known."""
    why = _reason(manifest)
    with store.read() as session:
        names = account_names(session, settings.account)
    done = [halting.halt(store, name, why, by) for name in names]
    with store.session() as session:
        facts = {"at": manifest.at, "seal": manifest.seal, "by": by, "accounts": names}
        audit.record(session, settings, "restored", **facts)
        for one in done:
            halting.record(session, settings, one)
    return names, disarming.disarm(store, settings, None, by)


def _reason(manifest: Manifest) -> str:
    return f"restored from the backup of {utc(manifest.at)}"


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
_MAKE = re.compile(r"CREATE (TABLE|(UNIQUE )?INDEX) [^;]*;")  # of features, in one line
_COPY = re.compile(r'COPY "?[A-Za-z0-9_]+"? \([A-Za-z0-9_", ]+\) FROM stdin;')
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
        core = core_tables()
        of_features = list(feature_tables.reflected(connection, frozenset(core)))
        for table in of_features:  # those of a package that is not installed where it is restored too
            file.writelines(f"{statement};\n".encode() for statement in feature_tables.made_by(connection, table))
        for table in (*core.values(), *of_features):
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
            cursor.execute(f"TRUNCATE {', '.join(map(connection.dialect.identifier_preparer.quote, core_tables()))}")
            while line := file.readline():
                statement = line.decode().rstrip("\n")
                if _MAKE.fullmatch(statement) is not None:
                    cursor.execute(statement)
                    continue
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
    """Check a SQLite file: its pages, its indexes, and that no row refers to one that is not there. Raises
    BackupError."""
    try:
        found = soundness.look_at_file(path, whole=True)
    except DatabaseDown as error:
        raise _unsound(path, str(error.args[0])) from None
    if found.why is not None:
        raise _unsound(path, found.why)


def _unsound(path: Path, why: str) -> BackupError:
    return BackupError(f"{path.name} is not a sound database: {why}", remedy="use another backup")


def require_new_database(url: str) -> None:
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
