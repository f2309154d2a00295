"""Folders that backups are written to before they get their names, beside them. A process locks its own while it lives:
by that others know what a killed one left."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ASIDE = re.compile(r"\.(.+)\.partial-[a-z0-9_]{8}")  # the last eight characters are tempfile's


@contextmanager
def aside(target: Path) -> Iterator[Path]:
    """Yield an empty folder for what is to become the target; the end of the block removes it, if it is there still.
    First of all those are removed that killed processes left of the same target. Raises OSError."""
    for left in abandoned(target.parent):
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


def abandoned(parent: Path) -> list[Path]:
    """Return the folders of unfinished backups in a folder that no process of this machine writes any more; none where
    it cannot be listed, or has no locks."""
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
    """Return the descriptor of the folder's lock, which ends with its holder; None when another process has it, and
    where there is no lock to have."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    os.close(descriptor)
    return None
