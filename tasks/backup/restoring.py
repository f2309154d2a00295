"""Restoring a backup into an empty place.

Everything is verified before it counts: each file by its SHA-256, the database's pages and foreign keys, the chain of
the audit log, the lineage of every order. Afterwards the desk is halted: orders may have been sent, and halts and
mandates changed, after the point in time. Only a person resumes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store, current, knows, upgrade
from chordesk.models.errors import BackupError, DeskError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.models.text import utc
from chordesk.tasks.backup import databases
from chordesk.tasks.backup.making import AUDIT, BLOBS
from chordesk.tasks.backup.places import DATABASES, BackupPlace, Manifest
from chordesk.tasks.reading.chain import chain
from chordesk.tools.orders import audit, halting
from chordesk.tools.orders import halting as disarming
from chordesk.tools.orders.accounts import account_names
from chordesk.tools.orders.audit_reading import check_logs

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


def restore(settings: Settings, address: str, by: str) -> Restored:
    """Raises UsageError when a place is not empty, BackupError when the backup is not whole; then both are empty
    again."""
    place = BackupPlace(address)
    manifest = place.manifest()
    _require_fit(manifest, settings)
    _require_empty(settings.home)
    databases.require_empty(settings.database)
    with _own_until_done(settings):
        stage = settings.home / STAGE
        stage.mkdir(parents=True)
        for file in manifest.files:
            place.fetch(file, stage)
        copy = stage / DATABASES[manifest.database]
        if manifest.database == "sqlite":
            databases.require_sound(copy)
        # First of all: with it no process of this data folder trades, whatever else is there by then.
        halting.write_file(settings, _why(manifest, stage), by)
        _move_files(settings, manifest, stage)
        with databases.loaded(copy, settings.database, manifest.revision):
            upgrade(settings.database)
            with contextlib.closing(Store(settings.database)) as store:
                lines = _verify(store, settings, manifest)
                halted, disarmed = _halt(store, settings, manifest, by)
        shutil.rmtree(stage)
    _, newest = current(settings.database)
    older = manifest.revision if manifest.revision != newest else None
    return Restored(manifest, str(settings.home), older, halted, disarmed, lines)


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
        for end in ("", "-wal", "-shm", "-queue", "-journal"):
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


def _verify(store: Store, settings: Settings, manifest: Manifest) -> int:
    """Check the audit log and each order's lineage; return how many lines were checked. Raises BackupError."""
    lines = 0
    for checked in check_logs(store, settings, whole=True):
        known = manifest.chain(checked.chain)
        if known is not None and not known.included:
            continue  # its file is on another host
        if checked.reading.problems and (known is None or not known.problems):
            raise BackupError(
                f"the audit log of the backup is not whole: {checked.reading.problems[0]}", remedy="use another backup"
            )
        lines += checked.count
    with store.read() as session:
        _verify_lineage(session)
    return lines


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
