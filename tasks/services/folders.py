"""The folders of a home that running processes use: sockets, logs, the Redis data and the lock of `desk up`."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from chordesk.models.errors import UsageError
from chordesk.models.settings.running_desk import lock_path
from chordesk.tasks.worker import sockets

LOCK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of one home; `sockets` is elsewhere when the home's path is too long for a socket."""

    home: Path
    run: Path
    logs: Path
    redis: Path
    sockets: Path

    @property
    def processes_file(self) -> Path:
        return self.run / "processes.json"


def prepare(home: Path) -> Folders:
    """Create the folders, private to this user. Raises UsageError when it fails."""
    run = home / "run"
    folders = Folders(home, run, home / "logs", home / "redis", sockets.socket_folder(home))
    try:
        home.mkdir(parents=True, exist_ok=True)
        for folder in (folders.run, folders.logs, folders.redis):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
    except OSError as error:
        remedy = "set DESK_HOME to a folder you may write"
        raise UsageError(f"cannot use {home} as the desk's home: {error}", remedy=remedy) from None
    try:
        sockets.make_folder(home)
    except OSError as error:
        raise UsageError(str(error), remedy="remove it, or set DESK_HOME") from None
    return folders


def remove_sockets(folders: Folders) -> None:
    """Remove the socket folder when it is outside the home."""
    if folders.sockets == folders.run:
        return
    with suppress(OSError):
        for entry in folders.sockets.iterdir():
            entry.unlink()
        folders.sockets.rmdir()


@contextmanager
def only_one(folders: Folders) -> Iterator[None]:
    """Hold the home's lock. Raises UsageError when another `desk up` holds it."""
    with lock_path(folders.home).open("a+") as handle:
        if not _locked(handle):
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            remedy = "use that one, stop it first, or choose another DESK_HOME"
            raise UsageError(f"the desk is already up on {folders.home} (process {holder})", remedy=remedy)
        handle.seek(0)
        handle.truncate()
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def _locked(handle: IO[str]) -> bool:
    """Return True once the lock is taken. `is_up` holds it for a moment too, so one try is not enough."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
        time.sleep(0.01)
