"""The unix sockets of a home: their private folder, and the question to a worker's health socket.

Standard library only: health checks ask every few seconds, and loading the desk costs seconds of CPU.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Linux takes 107 bytes, macOS 103; supervisord appends its pid while it binds.
MAX_SOCKET_PATH = 103
_LONGEST_NAME = "supervisor.sock.4194304"
HEALTH = ".health"
ANSWER_SECONDS = 5.0
STALLED_SECONDS = 30.0  # the loop of a worker on a busy machine turns later than its tick, but not by this much


class Health(NamedTuple):
    """A worker's answer. age: seconds since its loop turned last; None before it did."""

    node: str
    age: float | None

    @property
    def well(self) -> bool:
        return self.age is not None and self.age < STALLED_SECONDS

    def __str__(self) -> str:
        if self.age is None:
            return f"{self.node} is starting"
        return f"{self.node} answers" if self.well else f"the loop of {self.node} last turned {self.age:.0f} s ago"


def socket_folder(home: Path) -> Path:
    run = home / "run"
    if len(os.fsencode(run / _LONGEST_NAME)) <= MAX_SOCKET_PATH:
        return run
    import tempfile

    return Path(tempfile.gettempdir()) / f"chordesk-{os.getuid()}-{_digest(os.fsencode(run))}"


def make_folder(home: Path) -> Path:
    """For this user alone. Raises OSError, also when another user made it first in a shared temp folder."""
    from chordesk.models.home import make_folder as made  # not needed to ask

    run, folder = home / "run", socket_folder(home)
    made(run, 0o700)
    run.chmod(0o700)
    if folder == run:
        return folder
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a private folder of this user")
    return folder


def health_path(home: Path, node: str) -> Path:
    return socket_folder(home) / f"{_digest(node.encode())}{HEALTH}"


def _digest(data: bytes) -> str:
    import hashlib  # not needed to ask

    return hashlib.sha256(data).hexdigest()[:12]


def ask_all(home: Path) -> Iterator[Health]:
    for path in sorted(socket_folder(home).glob(f"*{HEALTH}")):
        if (found := _ask(path)) is not None:
            yield found


def _ask(path: Path) -> Health | None:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_SECONDS)
        try:
            line.connect(str(path))
            node, _, age = line.makefile(encoding="utf-8").read().partition("\n")
            return Health(node, float(age) if age else None) if node else None
        except (OSError, ValueError):
            return None
