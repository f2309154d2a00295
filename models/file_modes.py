"""The files of the desk that others than their owner may read or write, found and closed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy.engine import make_url

from chordesk.models.settings import Settings
from chordesk.models.shortages import folders

PRIVATE = 0o077  # umask of every process of the desk: what it makes is its owner's alone


def open_to_others(settings: Settings) -> list[Path]:
    """What is in a private folder is out of others' reach, whatever its own rights."""
    return [path for path in dict.fromkeys(_owned(settings, reached=True)) if _is_open(path)]


def close(settings: Settings) -> list[Path]:
    """Take the rights of others from all of them; return those that could not be closed, as others own them."""
    for path in _owned(settings, reached=False):
        if _is_open(path):
            with suppress(OSError):
                path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~PRIVATE)
    return open_to_others(settings)


def _owned(settings: Settings, *, reached: bool) -> Iterator[Path]:
    """A database in a folder of others, or a telemetry file, is a file alone. reached: without private folders."""
    home = settings.home
    shut = reached and not _is_open(home)
    yield home
    yield from _tree(home, reached)
    database = make_url(settings.database)
    files = [settings.telemetry_file] if settings.telemetry_file is not None else []
    if database.get_backend_name() == "sqlite" and database.database:
        files += [Path(f"{database.database}{end}") for end in ("", "-wal", "-shm")]
    yield from (file for file in files if not (shut and file.is_relative_to(home)))
    named = folders(settings)
    for name in ("vault", "reports"):
        if name in named and not named[name].is_relative_to(home):
            yield named[name]
            yield from _tree(named[name], reached)


def _tree(folder: Path, reached: bool) -> Iterator[Path]:
    if reached and not _is_open(folder):
        return
    for place, names, files in os.walk(folder):  # links are not followed
        yield from (Path(place, name) for name in (*names, *files))
        if reached:
            names[:] = [name for name in names if _is_open(Path(place, name))]


def _is_open(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return not stat.S_ISLNK(mode) and bool(mode & PRIVATE)
