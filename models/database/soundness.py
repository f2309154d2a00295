"""Whether the database is sound, and the mark that says it is not.

The mark is a file: a database that is not sound cannot be trusted to say so. It lies beside a SQLite database, and in
the data folder where the database is a server's. While it is there no step begins and every account counts as halted.
A check of the whole database that finds nothing removes it.

SQLite keeps no checksums of its pages: a check finds a damaged structure, an index that disagrees with its table, and a
row that refers to a missing one. A letter changed within a text is found in a file that a stopped desk has sealed
(`page_sums`), and not while a desk writes. PostgreSQL reports its own checksums,
and checks its tables and indexes where the extension amcheck is installed.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from chordesk.models.database import page_sums
from chordesk.models.errors import DatabaseDown, DatabaseUnsound
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.text import utc_seconds
from chordesk.models.urls import masked

MARK = "unsound"
BUSY_SECONDS = 20.0
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY = 0xFF  # of an extended result code
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Soundness:
    """What a check found. why: what is damaged, None while nothing is known to be; how: what was looked at."""

    why: str | None
    how: str


def corruption(error: BaseException | None) -> str | None:
    """Return what SQLite says about a damaged file; None for every other error, such as a lock or a full disk."""
    if not isinstance(error, sqlite3.Error):
        error = getattr(error, "orig", None)
    code = getattr(error, "sqlite_errorcode", None)
    return one_line(str(error)) if code is not None and code & _PRIMARY in _CORRUPT else None


def one_line(found: str) -> str:
    return " ".join(found.split())[:_LONGEST]


def look(url: str, *, whole: bool = False, pause: Callable[[], bool] | None = None) -> Soundness:
    """Check the database; a file that does not exist is sound. whole: also indexes against their tables, and foreign
    keys, table by table. pause: called between tables; True ends the check. Raises DatabaseDown where it cannot be
    read."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return _server(url, whole)
    if not parsed.database or parsed.database == ":memory:" or not Path(parsed.database).exists():
        return Soundness(None, "nothing is there yet")
    return look_at_file(Path(parsed.database), whole=whole, pause=pause)


def look_at_file(path: Path, *, whole: bool = False, pause: Callable[[], bool] | None = None) -> Soundness:
    how = "every page, index and reference read" if whole else "pages read"
    try:
        if changed := page_sums.changed_pages(path):
            return Soundness(page_sums.said(changed), how)
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as connection:
            why = next(_damages(connection, whole, pause or (lambda: False)), None)
    except (sqlite3.Error, OSError) as error:
        why = corruption(error)
        if why is None:
            raise DatabaseDown(
                f"the database {path} cannot be checked: {error}", remedy="see that its folder can be read, and again"
            ) from None
    return Soundness(why, how)


def _damages(connection: sqlite3.Connection, whole: bool, pause: Callable[[], bool]) -> Iterator[str]:
    yield from _said(connection, "PRAGMA quick_check(1)")
    if not whole:
        return
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        if pause():
            return
        quoted = name.replace("'", "''")
        # A table at a time: one long reading would keep the write-ahead log from being taken in.
        yield from _said(connection, f"PRAGMA integrity_check('{quoted}')")
        lost = connection.execute(f"PRAGMA foreign_key_check('{quoted}')").fetchone()
        if lost is not None:
            yield f"a row of {lost[0]} refers to one of {lost[2]} that is not there"


def _said(connection: sqlite3.Connection, check: str) -> Iterator[str]:
    (found,) = connection.execute(check).fetchone() or ("ok",)
    if found != "ok":
        yield one_line(str(found).replace("*** in database main ***", ""))


# PostgreSQL as far as it goes: failed page checksums that the server counted, and amcheck.
_CHECKSUMS = """
select current_setting('data_checksums'), coalesce(checksum_failures, 0)
from pg_stat_database where datname = current_database()
"""
_INDEXES = """
select c.relname, c.oid from pg_class c join pg_index i on i.indexrelid = c.oid join pg_am a on a.oid = c.relam
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = current_schema() and a.amname = 'btree' and i.indisvalid and c.relpersistence = 'p'
order by c.relname
"""

_INDEX = text("select bt_index_check(index => cast(:oid as regclass), heapallindexed => true)")


def _server(url: str, whole: bool) -> Soundness:
    address = make_url(url)
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    engine = create_engine(address, connect_args={"connect_timeout": 5})
    try:
        with engine.connect() as connection:
            return _asked(connection, whole)
    except SQLAlchemyError as error:
        reason = one_line(str(getattr(error, "orig", None) or error))
        raise DatabaseDown(f"the database {masked(url)} does not answer: {reason}") from None
    finally:
        engine.dispose()


def _asked(connection: Connection, whole: bool) -> Soundness:
    setting, failures = connection.execute(text(_CHECKSUMS)).one()
    how = "page checksums are on, and none failed" if setting == "on" else "page checksums are off"
    if failures:
        return Soundness(f"{failures} pages failed their checksum, as the server counted", how)
    if not whole:
        return Soundness(None, how)
    there = connection.execute(text("select 1 from pg_extension where extname = 'amcheck'")).first()
    if there is None:
        return Soundness(None, f"{how}; indexes were not read: the extension amcheck is not installed")
    rows = connection.execute(text(_INDEXES)).all()
    for name, oid in rows:
        try:
            with connection.begin_nested():
                connection.execute(_INDEX, {"oid": oid})
        except SQLAlchemyError as error:
            state = getattr(getattr(error, "orig", None), "sqlstate", None)
            if state in ("XX001", "XX002"):  # data_corrupted, index_corrupted
                return Soundness(f"index {name}: {one_line(str(error.orig))}", how)  # type: ignore[attr-defined]
            if state == "42501":
                return Soundness(None, f"{how}; indexes were not read: this login may not use amcheck")
            raise
    return Soundness(None, f"{how}; amcheck read {len(rows)} indexes")


def _beside(url: str) -> Path | None:
    parsed = make_url(url)
    plain = parsed.get_backend_name() == "sqlite" and parsed.database and parsed.database != ":memory:"
    return _beside_file(Path(str(parsed.database))) if plain else None


def _beside_file(path: Path) -> Path:
    return path.with_name(f"{path.name}-{MARK}")


def mark_path(settings: Settings) -> Path:
    return _beside(settings.database) or settings.home / f"database-{MARK}"


def marked(settings: Settings) -> str | None:
    """Return why the database counts as not sound; None while no check or statement has found damage."""
    path = mark_path(settings)
    try:
        return one_line(path.read_text(errors="replace")) or "no reason given"
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return None  # no file can be opened, which is a shortage of its own and says nothing of the database
        return f"{path} cannot be read: {error.strerror}"


def mark(path: Path, why: str) -> None:
    """Write the mark unless there is one; the first reason stays. A folder that cannot be written has none."""
    with suppress(OSError), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{why} (found at {utc_seconds(utcnow())})\n")


def mark_damage(url: str, error: BaseException | None) -> None:
    """Mark a SQLite database when a statement of it failed because the file is damaged."""
    why, path = corruption(error), _beside(url)
    if why is not None and path is not None:
        mark(path, why)


def is_marked(path: Path) -> bool:
    return _beside_file(path).exists()


def before_writing(path: Path) -> None:
    """Compare a sealed file with its sums before they are removed, since a page may change from now on; mark the file
    where it differs, and leave the sums: only a restore, or a person who deletes them, makes it sound again."""
    kept = page_sums.sums_path(path)
    if not kept.exists() or is_marked(path):
        return
    with suppress(OSError):
        if changed := page_sums.changed_pages(path):
            mark(_beside_file(path), page_sums.said(changed))
        else:
            kept.unlink(missing_ok=True)


def watch(settings: Settings, *, whole: bool = False, pause: Callable[[], bool] | None = None) -> Soundness:
    """Check the database and keep the mark in step. One that is marked is checked whole: only that clears it."""
    before = marked(settings)
    found = look(settings.database, whole=whole or before is not None, pause=pause)
    if found.why is not None:
        mark(mark_path(settings), found.why)
    elif before is not None and not (pause is not None and pause()):
        with suppress(OSError):
            mark_path(settings).unlink(missing_ok=True)
    return found


def require(settings: Settings, *, whole: bool = False) -> None:
    """Raise DatabaseUnsound where the database is damaged."""
    found = watch(settings, whole=whole)
    if found.why is not None:
        raise DatabaseUnsound(f"the database {masked(settings.database)} is not sound: {found.why}")


def paced(stopped: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """Return a pause between tables that waits so long, and ends the check when the process is to end."""

    def pause() -> bool:
        if not stopped():
            time.sleep(seconds)
        return stopped()

    return pause
