"""Where a worker's app-servers live on disk: one folder per worker, claimed by a file lock.

{home}/codex/{worker}/           lock, home_id
{home}/codex/{worker}/kept       CODEX_HOME of thread-keeping processes; its sessions folder outlives them
{home}/codex/{worker}/ephemeral  CODEX_HOME of the others
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from models.errors import CodexError

MOST_HOMES = 1000


@dataclass(frozen=True, slots=True)
class Home:
    """A claimed home. id is made once and stays with the folder, so that its threads are found again."""

    path: Path
    id: str
    lock: int

    def of(self, kind: str) -> Path:
        return self.path / kind

    def release(self) -> None:
        os.close(self.lock)


def claim_home(root: Path, worker: str) -> Home:
    """Claims {root}/codex/{worker}, or {worker}-2, -3 and so on while other workers hold the earlier ones.

    Raises CodexError when none can be had.
    """
    for number in range(1, MOST_HOMES):
        path = root / "codex" / (worker if number == 1 else f"{worker}-{number}")
        lock = _lock(path)
        if lock is not None:
            return Home(path, _prepare(path), lock)
    raise CodexError(f"no free home for worker {worker} under {root / 'codex'}: {MOST_HOMES - 1} are taken")


def _lock(path: Path) -> int | None:
    """The descriptor of the folder's lock, or None when another process holds it. It dies with its holder."""
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
    marker = path / "home_id"
    if not marker.exists():
        marker.write_text(uuid.uuid4().hex, encoding="ascii")
    return marker.read_text(encoding="ascii").strip()
