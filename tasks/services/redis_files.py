"""The embedded Redis' own append-only file, where it is damaged: set aside with a date, so that Redis starts empty.

Nothing is lost by that: the database has every step, and the sweep sends again what was waiting.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from chordesk.models.errors import ServiceError
from chordesk.models.tables.columns import utcnow

NAMES = ("appendonlydir", "appendonly.aof", "dump.rdb")
# A server names one of them in the line by which it ends over a file that it cannot read.
_FILES = ("append only file", "AOF manifest", "AOF file", "manifest file", "RDB", "loading DB")
# A disk, a right or a version that is in the way is no damage.
_OTHER = ("No space", "Permission denied", "Read-only", "Input/output", "format version", "Too many open files")
_WARNING = " # "  # the level of such a line


def why_unreadable(written: str) -> str | None:
    """Return the line by which a server said that it cannot read its file; None for every other end."""
    for line in written.splitlines():
        _, level, told = line.partition(_WARNING)
        if level and any(name in told for name in _FILES):
            return None if any(other in told for other in _OTHER) else told.strip()
    return None


def set_aside(folder: Path) -> Path:
    """Move the server's files into a new folder within theirs, named by the time. Raises ServiceError."""
    aside = folder / f"damaged-{utcnow():%Y-%m-%dT%H%M%SZ}"
    try:
        aside.mkdir(exist_ok=True)
        for path in _files(folder):
            shutil.move(path, aside / path.name)
    except OSError as error:
        raise ServiceError(
            f"the damaged files of Redis in {folder} cannot be set aside: {error.strerror}",
            remedy=f"remove what is in {folder}: what waits is sent again",
        ) from None
    return aside


def _files(folder: Path) -> Iterator[Path]:
    yield from (folder / name for name in NAMES if (folder / name).exists())
