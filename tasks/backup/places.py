"""The place of a backup: a folder, or an address that fsspec can reach; its manifest, and the folders beside it that
are written to before a backup has its name."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from fsspec.implementations.local import LocalFileSystem
from pydantic import ValidationError

from chordesk.models.answers import Frozen
from chordesk.models.errors import BackupError, UsageError
from chordesk.models.files import reach, sync_folder
from chordesk.models.urls import masked

# Folders that backups are written to before they get their names, beside them. A process locks its own while it
# lives:
# by that others know what a killed one left.

_ASIDE = re.compile(r"\.(.+)\.partial-[a-z0-9_]{8}")  # the last eight characters are tempfile's


@contextmanager
def staging_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder for the target; it is removed at the end, as are those that killed processes left. Raises
    OSError."""
    for left in abandoned_folders(target.parent):
        if _target(left) == target.name:
            shutil.rmtree(left, ignore_errors=True)
    new = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.new-"))
    lock = _locked(new)  # before it has the name by which others find it
    folder = new.rename(target.parent / f".{target.name}.partial-{new.name[-8:]}")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def abandoned_folders(parent: Path) -> list[Path]:
    """Unfinished backups that no process of this machine writes; none where the folder cannot be listed or has no
    locks."""
    with suppress(OSError):
        return [path for path in sorted(parent.iterdir()) if _target(path) and _is_free(path)]
    return []


def _target(path: Path) -> str | None:
    found = _ASIDE.fullmatch(path.name)
    return found[1] if found else None


def _is_free(path: Path) -> bool:
    lock = _locked(path)
    if lock is not None:
        os.close(lock)
    return lock is not None


def _locked(folder: Path) -> int | None:
    """The descriptor of the folder's lock; None when another process has it, and where there is no lock to have."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    os.close(descriptor)
    return None


# The manifest of a backup: its point in time, its versions, and each file with its SHA-256. It is written last: a
# folder without one is not a backup.

MANIFEST_NAME = "manifest.json"
FORMAT = 2  # 1 had a Postgres by pg_dump
DATABASES = {"sqlite": "database.sqlite", "postgresql": "database.copy.gz"}
_CHUNK = 1 << 20
# Nothing else is ever read or written: a name of a manifest leads out of no folder.
_FILE = re.compile(r"database\.(sqlite|copy\.gz|dump)|HALT|audit/(audit\.jsonl|chain)|"
                   r"artifacts/[0-9a-f]{64}(\.png|\.jpg)?|blobs/[0-9a-f]{2}/[0-9a-f]{64}")  # fmt: skip


class BackupFile(Frozen):
    """A file of a backup, by its path within it."""

    path: str
    bytes: int
    sha256: str


class BackupChain(Frozen):
    """A chain of the audit log."""

    chain: str
    place: str
    lines: int
    included: bool  # its file is in the backup, cut at the last line that the database counts
    problems: list[str] = []  # what was wrong with it then


class BackupCounts(Frozen):
    """What a database has at one point in time. revision: of its schema."""

    at: dt.datetime
    revision: str
    runs: int
    open_runs: int
    orders: int


class Manifest(BackupCounts):
    """All about a backup. at: that of the database's snapshot."""

    format: int
    version: str | None  # of the desk that made it, None where it was not installed
    database: Literal["sqlite", "postgresql"]
    chains: list[BackupChain]
    files: list[BackupFile]
    removed: dict[str, dt.datetime]  # pictures that retention had removed before, with the time
    missing: list[str]  # files that rows refer to and that this data folder does not have
    left_out: list[str]  # what is elsewhere, in plain text
    seal: str = ""  # SHA-256 of all the rest

    def sealed(self) -> Manifest:
        return self.model_copy(update={"seal": _seal(self)})

    def chain(self, name: str) -> BackupChain | None:
        return next((one for one in self.chains if one.chain == name), None)


def _seal(manifest: Manifest) -> str:
    body = manifest.model_dump(mode="json", exclude={"seal"})
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def written_manifest(manifest: Manifest) -> bytes:
    return (manifest.model_dump_json(indent=1) + "\n").encode()


def parsed_manifest(data: bytes, place: str) -> Manifest:
    """Return the manifest of these bytes. Raises BackupError when they are not as they were written."""
    try:
        found = json.loads(data)
        newer = found["format"] if isinstance(found, dict) and isinstance(found.get("format"), int) else 0
        if newer > FORMAT:
            raise BackupError(
                f"the backup {place} has format {newer}, and this version reads up to {FORMAT}",
                remedy="restore it with the version that made it, or a newer one",
            )
        manifest = Manifest.model_validate(found)
    except (ValueError, ValidationError):
        raise _damaged(place) from None
    if _seal(manifest) != manifest.seal or any(_FILE.fullmatch(file.path) is None for file in manifest.files):
        raise _damaged(place)
    return manifest


def _damaged(place: str) -> BackupError:
    return BackupError(
        f"{MANIFEST_NAME} of the backup {place} is damaged", remedy="use another backup, or another copy of it"
    )


def file_of(folder: Path, name: str) -> BackupFile:
    """Return a file of a folder with its size and SHA-256. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with (folder / name).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return BackupFile(path=name, bytes=size, sha256=digest.hexdigest())


class BackupPlace:
    """A folder of files. Methods raise BackupError when it does not answer."""

    def __init__(self, address: str) -> None:
        """Raises UsageError for an address that cannot be used."""
        self._files, root = reach(address)
        self._root = root.rstrip("/")
        self.name = masked(address)
        self.folder = Path(self._root) if isinstance(self._files, LocalFileSystem) else None

    def require_empty(self) -> None:
        """Raises UsageError when there is something already."""
        with self._answering():
            self._files.invalidate_cache()
            there = self._files.exists(self._root) and bool(self._files.ls(self._root, detail=False))
        if there:
            raise UsageError(f"{self.name} is not empty", remedy="name a new folder for each backup")

    @contextlib.contextmanager
    def filled(self) -> Iterator[Path]:
        """Yield an empty folder whose content becomes this place's at the end; the manifest comes last, an error leaves
        nothing."""
        target = self.folder or Path(tempfile.gettempdir(), "desk-backup")
        with contextlib.ExitStack() as stack:
            with self._answering():
                target.parent.mkdir(parents=True, exist_ok=True)
                folder = stack.enter_context(staging_folder(target))
            yield folder
            with self._answering():
                self._publish(folder)

    def leftovers(self) -> list[str]:
        return [str(path) for path in abandoned_folders(self.folder.parent)] if self.folder is not None else []

    def _publish(self, folder: Path) -> None:
        names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
        if self.folder is not None:
            for name in names:
                with (folder / name).open("rb") as file:
                    os.fsync(file.fileno())
            os.rename(folder, self.folder)
            sync_folder(self.folder.parent)
            return
        for name in sorted(names, key=lambda name: name == MANIFEST_NAME):
            self._files.makedirs(f"{self._root}/{name}".rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(folder / name), f"{self._root}/{name}")

    def manifest(self) -> Manifest:
        """Return the manifest. Raises BackupError if it is missing or damaged."""
        with self._answering():
            try:
                data: bytes = self._files.cat_file(f"{self._root}/{MANIFEST_NAME}")
            except (FileNotFoundError, NotADirectoryError):
                raise BackupError(
                    f"{self.name} is no backup: it has no {MANIFEST_NAME}, which is written last",
                    remedy="name the folder of a backup that was not interrupted",
                ) from None
        return parsed_manifest(data, self.name)

    def fetch(self, file: BackupFile, folder: Path) -> None:
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._answering():
            try:
                self._files.get_file(f"{self._root}/{file.path}", str(target))
            except FileNotFoundError:
                raise self._damaged(file, "is missing") from None
            target.chmod(0o600)
            if file_of(folder, file.path) != file:
                raise self._damaged(file, "is damaged: its SHA-256 is not that of the manifest")

    def _damaged(self, file: BackupFile, why: str) -> BackupError:
        return BackupError(
            f"{file.path} of the backup {self.name} {why}", remedy="use another backup, or another copy of it"
        )

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except BackupError:
            raise
        except Exception as error:  # each file system has errors of its own
            raise BackupError(
                f"{self.name} cannot be used: {error}", remedy="check the address and its space"
            ) from None


def is_backup(address: str) -> bool:
    """Return whether a backup is there already, whole or not, or what was left of one."""
    place = BackupPlace(address)
    try:
        place.manifest()
    except BackupError as error:
        begun = place.folder is not None and any((place.folder / name).exists() for name in DATABASES.values())
        return begun or "is no backup" not in str(error.args[0])
    return True
