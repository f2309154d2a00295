"""Files that other processes read while this one writes them, and file systems at addresses."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from platformdirs import user_data_path

from chordesk.models.errors import SettingError, UsageError
from chordesk.models.home import make_folder
from chordesk.models.text import redacted
from chordesk.models.urls import masked


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Rename a temporary file at the end: readers never see half a file. Raises OSError, and leaves nothing."""
    make_folder(path.parent)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=".aside-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise


def user_home() -> Path | None:
    """Return the home of this process's user; None where no variable names one and the system does not know the user,
    as in a container with a user id of its own."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def data_folder() -> Path:
    """Return the desk's folder where no setting names one. Raises SettingError."""
    try:
        return user_data_path("chordesk")
    except RuntimeError:
        raise SettingError(
            "home (DESK_HOME) is not set, and the user of this process has no home folder",
            remedy="set DESK_HOME to a folder that this user may write to",
        ) from None


def expanded(path: Path | str) -> Path:
    """Return a path with the home in place of its tilde. Raises UsageError."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: there is no such home folder", remedy="set HOME, or write the whole path") from None


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def reach(address: str) -> tuple[Any, str]:
    """Return the file system of a folder or an fsspec address, and the path on it. Raises UsageError."""
    import fsspec  # takes 0.15 s, and most that import this module reach for no address

    try:
        files, path = fsspec.core.url_to_fs(address)
    except Exception as error:  # some file systems connect already, and each has errors of its own
        if isinstance(error, ImportError):
            remedy = "install the package that it names, beside the desk"
        elif isinstance(error, ValueError):
            remedy = "name a folder, or an address that fsspec knows, such as s3://BUCKET/FOLDER"
        else:
            remedy = "check the address, its credentials and that its service answers, or name another place"
        why = redacted(str(error).strip().partition("\n")[0]) or type(error).__name__
        raise UsageError(f"{masked(address)} cannot be used: {why}", remedy=remedy) from None
    return files, path
