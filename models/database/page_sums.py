"""Sums of a SQLite file's pages, kept beside it while no desk writes: SQLite itself has none, so that it takes a
changed letter or figure for what was stored.

`seal` writes them once the last process has ended. The first transaction that writes compares and removes them
(`soundness.before_writing`), so where they are, each page has to be as it was. Crc32 finds what disks and hands change
by accident; it is no proof against an attacker, who would write the sums too.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from array import array
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import zip_longest
from pathlib import Path
from urllib.parse import quote

from chordesk.models.files import replacing

SUFFIX = "-sums"
WAIT_SECONDS = 2.0  # for other writers, at a seal
_HEAD = struct.Struct("<8sI")  # the form of the file, and the bytes of a page
_FORM = b"sums-1\n\0"
_PAGE_SIZE = struct.Struct(">H")  # at byte 16 of a database; 1 means 65,536
_LARGEST = 65_536


def sums_path(path: Path) -> Path:
    return path.with_name(f"{path.name}{SUFFIX}")


def seal(path: Path) -> bool:
    """Write the sums of a database that nothing else uses; return whether it was so. Raises OSError, sqlite3.Error."""
    address = f"file:{quote(str(path.absolute()))}?mode=rw"
    with closing(sqlite3.connect(address, uri=True, timeout=WAIT_SECONDS, isolation_level=None)) as connection:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            return False
        connection.execute("BEGIN IMMEDIATE")  # no other process writes until the sums are there
        try:
            if _log_bytes(path):
                return False
            size = _page_size(path)
            with replacing(sums_path(path)) as file:
                file.write(_HEAD.pack(_FORM, size))
                file.write(array("I", _sums(path, size)).tobytes())
        finally:
            connection.execute("ROLLBACK")
    return True


def changed_pages(path: Path) -> list[int]:
    """Return the numbers, from 1, of the pages that are not as they were when the last desk ended; none where that is
    not known, because a desk writes or was killed. Raises OSError where a file cannot be read."""
    kept = sums_path(path)
    with suppress(FileNotFoundError):
        before = kept.stat()
        form, size, sums = _read(kept)
        # A log with content is of a desk at work, or of one that was killed after it had removed these.
        if form != _FORM or _log_bytes(path):
            return []
        found = array("I", _sums(path, size))
        changed = [at for at, (now, then) in enumerate(zip_longest(found, sums), 1) if now != then]
        # A writer that began meanwhile has removed them before its first page.
        return changed if changed and kept.stat().st_ino == before.st_ino else []
    return []


def said(changed: list[int]) -> str:
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return (
        f"page {changed[0]}{more} of the file is not as the desk left it when it stopped: a disk or another program "
        f"changed it (if you did on purpose, delete the file that ends in {SUFFIX})"
    )


def _read(path: Path) -> tuple[bytes, int, array[int]]:
    data = path.read_bytes()
    if len(data) < _HEAD.size or (len(data) - _HEAD.size) % 4:
        return b"", 0, array("I")
    form, size = _HEAD.unpack_from(data)
    return (form, size, array("I", data[_HEAD.size :])) if 512 <= size <= _LARGEST else (b"", 0, array("I"))


# By device and inode, open until the process ends: with the first file that a process closes, POSIX takes all of its
# locks on it away, those of SQLite's connections too, and another process could delete their write-ahead log.
_open: dict[tuple[int, int], int] = {}


def _descriptor(path: Path) -> int:
    found = path.stat()
    key = (found.st_dev, found.st_ino)
    if key not in _open:
        _open[key] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return _open[key]


def _page_size(path: Path) -> int:
    (size,) = _PAGE_SIZE.unpack(os.pread(_descriptor(path), _PAGE_SIZE.size, 16))
    return _LARGEST if size == 1 else int(size)


def _sums(path: Path, size: int) -> Iterator[int]:
    file, at = _descriptor(path), 0
    while block := os.pread(file, size * 256, at):
        at += len(block)
        yield from (zlib.crc32(block[begin : begin + size]) for begin in range(0, len(block), size))


def _log_bytes(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.with_name(f"{path.name}-wal").stat().st_size
    return 0
