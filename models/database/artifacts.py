"""Artifacts: pictures that tools gave to turns, kept as files of the data folder under the digest of their bytes."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chordesk.models.files import replacing

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
