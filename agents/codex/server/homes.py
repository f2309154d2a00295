"""Folders of a worker's app-servers: one home per worker, claimed by a file lock.

{home}/codex/{worker}/           lock, home_id
{home}/codex/{worker}/kept       CODEX_HOME of thread-keeping processes; its sessions folder outlives them
{home}/codex/{worker}/ephemeral  CODEX_HOME of the others
{home}/codex/{worker}/aged       sessions that no process needs to see any more
{home}/codex/{worker}/scratch    rollouts that are being forked
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import shutil
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path

from chordesk.models.errors import CodexError

MOST_HOMES = 1000


@dataclass(frozen=True, slots=True)
class Home:
    """A claimed home. id is made once and stays with the folder, so that its threads are found again."""

    path: Path
    id: str
    lock: int

    @property
    def owner(self) -> str:
        """Return the worker's name and host, for the search for a thread by hand."""
        return f"{self.path.name}@{socket.gethostname()}"

    def of(self, kind: str) -> Path:
        return self.path / kind

    def release(self) -> None:
        os.close(self.lock)


def claim_home(root: Path, worker: str) -> Home:
    """Claim {root}/codex/{worker}, or {worker}-2, -3 and so on while other workers hold the earlier ones.

    Raises CodexError when none can be had.
    """
    for number in range(1, MOST_HOMES):
        path = root / "codex" / (worker if number == 1 else f"{worker}-{number}")
        if (lock := _lock(path)) is not None:
            return Home(path, _prepare(path), lock)
    raise CodexError(f"no free home for worker {worker} under {root / 'codex'}: {MOST_HOMES - 1} are taken")


def set_aside(codex_home: Path, thread_hours: float, days: float, now: dt.datetime) -> int:
    """Move rollouts that were not written for too long to be resumed out of the app-server's sessions, since it reads
    every one when it starts; delete those that were last written `days` ago. Return the number of moved files.

    thread_hours: hours without use after which no thread is resumed. now: local time.
    """
    aged, too_old = codex_home.parent / "aged" / "sessions", now - dt.timedelta(hours=thread_hours, days=1)
    moved = 0
    for file in _unwritten(codex_home / "sessions", too_old):
        into = aged / file.parent.relative_to(codex_home / "sessions")
        into.mkdir(parents=True, exist_ok=True)
        file.replace(into / file.name)
        moved += 1
    for file in _unwritten(aged, min(too_old, now - dt.timedelta(days=days))):
        file.unlink(missing_ok=True)
    for lock in (codex_home / "thread-writer-locks").glob("*.lock"):
        if not lock.name.startswith(".") and lock.stat().st_mtime < too_old.timestamp():
            lock.unlink(missing_ok=True)
    return moved


def _unwritten(sessions: Path, since: dt.datetime) -> list[Path]:
    """Return the files in the folders Y/M/D of days before a time that were not written since; remove those folders
    that are empty."""
    found = []
    for folder in _days(sessions, since):
        files = list(folder.iterdir())
        if not files:
            folder.rmdir()
        found += [file for file in files if file.stat().st_mtime < since.timestamp()]
    return found


def _days(sessions: Path, before: dt.datetime) -> list[Path]:
    """Return the folders Y/M/D of days that ended before a time."""
    found = []
    for folder in sessions.glob("*/*/*"):
        try:
            day = dt.datetime(*(int(part) for part in folder.parts[-3:]))  # type: ignore[arg-type]
        except ValueError:
            continue
        if day + dt.timedelta(days=1) < before:
            found.append(folder)
    return found


def _lock(path: Path) -> int | None:
    """Return the descriptor of the folder's lock, or None when another process holds it. The lock ends with its
    holder."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CodexError(f"the Codex home {path} is not writable: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _prepare(path: Path) -> str:
    for kind in ("kept", "ephemeral"):
        (path / kind).mkdir(mode=0o700, exist_ok=True)
        shutil.rmtree(path / kind / "sqlite", ignore_errors=True)
    shutil.rmtree(path / "scratch", ignore_errors=True)
    marker = path / "home_id"
    if not marker.exists():
        marker.write_text(uuid.uuid4().hex, encoding="ascii")
    return marker.read_text(encoding="ascii").strip()
