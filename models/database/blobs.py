"""Storage of large byte strings by the SHA-256 of their content: in the database, or in a folder that fsspec can reach.

Only compressed bytes are stored; `pack` compresses them, `unpack` restores and checks them.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from sqlalchemy import Table, delete, func
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import BlobsDown, SettingError, UsageError
from chordesk.models.files import reach, replacing
from chordesk.models.tables.columns import insert_for, utcnow
from chordesk.models.tables.runtime import Blob

FOLDER = "artifacts"
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg"}
# What stays of a file that was removed: empty, and as of its removal.
_REMOVED = ".removed"
_ASIDE = ".removing-"
_FILE = re.compile(r"(?P<digest>[0-9a-f]{64})(?:\.png|\.jpg)?")


class StoredFile(NamedTuple):
    """A file of an artifact; at: when it was last given to a turn."""

    path: Path
    digest: str
    at: dt.datetime


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def path_in_home(digest: str, kind: str) -> str:
    """Return the path of an artifact's file, relative to the data folder. kind: its media type, such as image/png."""
    return f"{FOLDER}/{digest}{_ENDINGS.get(kind, '')}"


def keep(home: Path, data: bytes, kind: str) -> None:
    """A file that is there already has the same bytes, and is as of now. Raises OSError."""
    path = home / path_in_home(digest_of(data), kind)
    try:
        os.utime(path)
    except FileNotFoundError:
        with replacing(path) as file:
            file.write(data)


def stored(home: Path, digest: str, kind: str) -> bytes | None:
    try:
        data = (home / path_in_home(digest, kind)).read_bytes()
    except OSError:
        return None
    return data if digest_of(data) == digest else None


def removed_at(home: Path, path: str) -> dt.datetime | None:
    """None while the data folder has the file, or if it never had. path: as of `path_in_home`."""
    file = home / path
    try:
        return None if file.exists() else _time_of(file.with_name(f"{file.stem}{_REMOVED}").stat().st_mtime)
    except OSError:
        return None


def removal_note(home: Path | None, path: str) -> str | None:
    at = removed_at(home, path) if home is not None else None
    return f"that file was removed on {at:%Y-%m-%d} (DESK_KEEP_ARTIFACT_DAYS)" if at is not None else None


def stored_files(home: Path) -> Iterator[StoredFile]:
    """In no order, after those that an interrupted removal left aside are back."""
    folder = home / FOLDER
    for aside in folder.glob(f"{_ASIDE}*"):
        with suppress(OSError):
            os.replace(aside, folder / aside.name.removeprefix(_ASIDE))
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            found = _FILE.fullmatch(entry.name)
            if found is not None:
                with suppress(OSError):
                    yield StoredFile(Path(entry.path), found["digest"], _time_of(entry.stat().st_mtime))


def remove(file: StoredFile) -> bool:
    """Remove a file and note that; return False if it is gone, or was given to a turn since it was looked at. It is
    renamed first: a turn that is given the same picture now finds either the file, and changes its time, so that it
    comes back, or none, and writes it."""
    aside = file.path.with_name(f"{_ASIDE}{file.path.name}")
    try:
        os.rename(file.path, aside)
        if _time_of(aside.stat().st_mtime) > file.at:
            os.replace(aside, file.path)
            return False
        file.path.with_name(f"{file.digest}{_REMOVED}").touch()
        aside.unlink()
    except FileNotFoundError:
        return False
    return True


def _time_of(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


LEVEL = 1  # of zlib: half the time of its default for a tenth more bytes, on rollouts
MOST_BYTES = 1 << 30  # of what was packed; more than that is not what we have stored
_DELETED_AT_ONCE = 500
_BLOB: Table = Blob.__table__  # type: ignore[attr-defined]
_DIGEST = re.compile("[0-9a-f]{64}")


def pack(data: bytes) -> bytes:
    return zlib.compress(data, LEVEL)


def unpack(digest: str, packed: bytes) -> bytes | None:
    try:
        data = zlib.decompressobj().decompress(packed, MOST_BYTES)
    except zlib.error:
        return None
    return data if hashlib.sha256(data).hexdigest() == digest else None


class BlobStore(Protocol):
    """Packed bytes by digest. Every method blocks, may be called from any thread, and raises BlobsDown."""

    def put(self, digest: str, packed: bytes) -> None: ...

    def get(self, digest: str) -> bytes | None: ...

    def stored(self, before: dt.datetime) -> set[str]: ...

    def size(self, digests: Collection[str]) -> int: ...

    def delete(self, digests: Collection[str], before: dt.datetime) -> int: ...


def blob_store(url: str | None, store: Store) -> BlobStore:
    return DatabaseBlobs(store) if url is None else FolderBlobs(url)


class DatabaseBlobs:
    def __init__(self, store: Store) -> None:
        self._store = store
        new = insert_for(store.engine.dialect.name, _BLOB)
        young = {"created_at": new.excluded.created_at}
        self._put = new.on_conflict_do_update(index_elements=["digest"], set_=young)  # made once: each turn runs it

    def put(self, digest: str, packed: bytes) -> None:
        row = {"digest": digest, "data": packed, "created_at": utcnow()}
        with _database(), self._store.session() as session:
            session.connection().execute(self._put, row)

    def get(self, digest: str) -> bytes | None:
        with _database(), self._store.read() as session:
            return session.exec(select(Blob.data).where(Blob.digest == digest)).one_or_none()

    def stored(self, before: dt.datetime) -> set[str]:
        with _database(), self._store.read() as session:
            return set(session.exec(select(Blob.digest).where(Blob.created_at < before)).all())

    def size(self, digests: Collection[str]) -> int:
        names, found = sorted(digests), 0
        for first in range(0, len(names), _DELETED_AT_ONCE):
            some = names[first : first + _DELETED_AT_ONCE]
            with _database(), self._store.read() as session:
                sizes = select(func.coalesce(func.sum(func.length(Blob.data)), 0)).where(col(Blob.digest).in_(some))
                found += int(session.exec(sizes).one())
        return found

    def delete(self, digests: Collection[str], before: dt.datetime) -> int:
        names, deleted = sorted(digests), 0
        for first in range(0, len(names), _DELETED_AT_ONCE):
            some = names[first : first + _DELETED_AT_ONCE]
            with _database(), self._store.session() as session:
                gone = delete(Blob).where(col(Blob.digest).in_(some), col(Blob.created_at) < before)
                deleted += session.connection().execute(gone).rowcount
        return deleted


class FolderBlobs:
    """One file for each blob, `{digest[:2]}/{digest}`, in a folder of any file system that fsspec knows."""

    def __init__(self, url: str) -> None:
        try:
            self._files, root = reach(url)
        except UsageError as error:
            raise SettingError(f"DESK_BLOB_URL={error.args[0]}", remedy=error.remedy) from None
        self._root = root.rstrip("/")

    def put(self, digest: str, packed: bytes) -> None:
        """Write the file even if it exists: the same name holds the same bytes, and readers check them."""
        with _folder():
            path = self._path(digest)
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, packed)

    def get(self, digest: str) -> bytes | None:
        with _folder():
            try:
                found: bytes = self._files.cat_file(self._path(digest))
            except FileNotFoundError:
                return None
            return found

    def stored(self, before: dt.datetime) -> set[str]:
        with _folder():
            self._files.invalidate_cache()
            named = {path.rpartition("/")[2]: path for path in self._files.find(self._root)}
            return {name for name, path in named.items() if _DIGEST.fullmatch(name) and self._older(path, before)}

    def size(self, digests: Collection[str]) -> int:
        with _folder():
            paths = [path for path in map(self._path, sorted(digests)) if self._files.exists(path)]
            return sum(int(self._files.size(path) or 0) for path in paths)

    def delete(self, digests: Collection[str], before: dt.datetime) -> int:
        with _folder():
            old = [path for path in map(self._path, sorted(digests)) if self._older(path, before)]
            for path in old:
                self._files.rm_file(path)
            return len(old)

    def _path(self, digest: str) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"

    def _older(self, path: str, before: dt.datetime) -> bool:
        """Return False also where the file system keeps no times: a blob that may be in use is not deleted."""
        try:
            at: dt.datetime = self._files.modified(path)
        except (FileNotFoundError, NotImplementedError):
            return False
        return (at if at.tzinfo else at.replace(tzinfo=dt.UTC)) < before


@contextmanager
def _database() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise BlobsDown(f"the database does not take or give a blob: {error.__class__.__name__}") from error


@contextmanager
def _folder() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each file system has errors of its own
        raise BlobsDown(f"the folder of DESK_BLOB_URL does not answer: {error}") from error
