"""The manifest of a backup: its point in time, its versions, and each file with its SHA-256. It is written last: a
folder without one is no backup."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from chordesk.models.errors import BackupError
from chordesk.models.research import Frozen

NAME = "manifest.json"
FORMAT = 1
DATABASES = {"sqlite": "database.sqlite", "postgresql": "database.dump"}
_CHUNK = 1 << 20
# Nothing else is ever read or written: a name of a manifest leads out of no folder.
_FILE = re.compile(r"database\.(sqlite|dump)|HALT|audit/(audit\.jsonl|chain)|artifacts/[0-9a-f]{64}(\.png|\.jpg)?|"
                   r"blobs/[0-9a-f]{2}/[0-9a-f]{64}")  # fmt: skip


class BackupFile(Frozen):
    """A file of a backup, by its path within it."""

    path: str
    bytes: int
    sha256: str


class BackupChain(Frozen):
    """A chain of the audit log. included: its file is in the backup, cut at the last line that the database counts.
    problems: what was wrong with it then."""

    chain: str
    place: str
    lines: int
    included: bool
    problems: list[str] = []


class Manifest(Frozen):
    """All about a backup. at: the point in time, that of the database's snapshot; revision: of its schema; version: of
    the desk that made it, None where it was not installed.

    removed: pictures that retention had removed before, with the time. missing: files that rows refer to and that this
    data folder does not have. left_out: what is elsewhere, in plain text. seal: SHA-256 of all the rest.
    """

    format: int
    at: dt.datetime
    version: str | None
    revision: str
    database: Literal["sqlite", "postgresql"]
    runs: int
    open_runs: int
    orders: int
    chains: list[BackupChain]
    files: list[BackupFile]
    removed: dict[str, dt.datetime]
    missing: list[str]
    left_out: list[str]
    seal: str = ""

    def sealed(self) -> Manifest:
        """Return the manifest with its seal."""
        return self.model_copy(update={"seal": _seal(self)})

    def chain(self, name: str) -> BackupChain | None:
        """Return the chain of that id, None where the database knew no such one."""
        return next((one for one in self.chains if one.chain == name), None)


def _seal(manifest: Manifest) -> str:
    body = manifest.model_dump(mode="json", exclude={"seal"})
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def written(manifest: Manifest) -> bytes:
    """Return the bytes of a manifest's file."""
    return (manifest.model_dump_json(indent=1) + "\n").encode()


def parsed(data: bytes, place: str) -> Manifest:
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
    return BackupError(f"{NAME} of the backup {place} is damaged", remedy="use another backup, or another copy of it")


def file_of(folder: Path, name: str) -> BackupFile:
    """Return a file of a folder with its size and SHA-256. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with (folder / name).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return BackupFile(path=name, bytes=size, sha256=digest.hexdigest())
