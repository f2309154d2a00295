"""Rollouts: the files in which the app-server keeps a thread, and the vault that has copies of them.

A rollout's path is relative to CODEX_HOME and the same in every home; its digest is the SHA-256 of the file.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Protocol

from models.files import replacing
from models.thread_tables import KeptThread, Rollout


class Vault(Protocol):
    """Where kept threads outlive their home. Its methods block: call them off the event loop."""

    def put(self, thread: KeptThread, rollout: Rollout, data: bytes) -> None:
        """Keeps a copy of a thread's file, under the generation that the registry then moves to.

        data: the file; its SHA-256 is rollout.digest. The thread's own row is written unless it is there. The same
        generation may be put again, when its first keeper did not live to move the registry on. Raises ServiceError.
        """
        ...

    def note(self, thread: KeptThread) -> None:
        """Writes the thread's own row alone, unless it is there: its file is not gone on with. Raises ServiceError."""
        ...

    def fetch(self, digest: str) -> bytes | None:
        """The file with that digest; None when there is none or it is not what it was. Raises ServiceError."""
        ...


# A path that comes from outside is written to: nothing else than a rollout's is taken for one.
PATH = r"sessions/\d{4}/\d{2}/\d{2}/rollout-[\w.-]+\.jsonl"
_IN_A_HOME = re.compile(rf".*/({PATH})")


def relative(path: str | None) -> str | None:
    """An absolute path of a rollout as one within CODEX_HOME; None when it is not one."""
    found = _IN_A_HOME.fullmatch(path) if path is not None else None
    return found.group(1) if found else None


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(codex_home: Path, path: str) -> bytes | None:
    """A rollout file; None when it is not there."""
    try:
        return (codex_home / path).read_bytes()
    except FileNotFoundError:
        return None


def write(codex_home: Path, path: str, data: bytes) -> None:
    """Puts a rollout file in its place; whoever looks sees all of it or what was there before. Raises OSError."""
    with replacing(codex_home / path) as file:
        file.write(data)
