"""Members of package files, read in memory: nothing is unpacked to disk, nothing is run."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from chordesk.models.errors import UsageError
from chordesk.tools.market.samples.catalog import PackageFile

_LARGEST = 256 << 20


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file. Raises UsageError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name a file that is there") from None


def require_hash(path: Path, wanted: PackageFile) -> None:
    """Raise UsageError unless the file is the pinned one."""
    found = digest_of(path)
    if found != wanted.sha256:
        reason = f"{path.name} is not {wanted.package} {wanted.version}: its SHA-256 is {found}, not {wanted.sha256}"
        raise UsageError(reason, remedy="fetch it again; nothing of it was read")


def members(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the files of a wheel or a source archive whose names match, in their order.

    Raises UsageError for what is no such archive, and for a member of more than 256 MB.
    """
    try:
        yield from _zipped(path, pattern) if zipfile.is_zipfile(path) else _tarred(path, pattern)
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        raise UsageError(f"{path.name} is no archive that can be read: {error}", remedy="fetch it again") from None


def member(path: Path, pattern: str) -> bytes:
    """Return the content of the one file whose name matches. Raises UsageError when there is none."""
    found = next(members(path, pattern), None)
    if found is None:
        raise UsageError(f"{path.name} has no file {pattern}", remedy="fetch it again")
    return found[1]


def _zipped(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if fnmatch(info.filename, pattern):
                _require_size(path, info.filename, info.file_size)
                yield info.filename, archive.read(info)


def _tarred(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path, "r:*") as archive:
        for info in archive:
            if info.isfile() and fnmatch(info.name, pattern):
                _require_size(path, info.name, info.size)
                file = archive.extractfile(info)
                assert file is not None, "a regular file has a content"
                yield info.name, file.read()


def _require_size(path: Path, name: str, size: int) -> None:
    if size > _LARGEST:
        raise UsageError(f"{path.name}: {name} has {size:,} bytes, more than {_LARGEST:,}", remedy="fetch it again")
