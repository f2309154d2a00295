"""Rollouts: the files in which the app-server keeps a thread.

A rollout's path is relative to CODEX_HOME and the same in every home; its digest is the SHA-256 of the file.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from agents.kept_threads import ROLLOUT_PATH
from models.files import replacing

_IN_A_HOME = re.compile(rf".*/({ROLLOUT_PATH})")


def relative(path: str | None) -> str | None:
    """Return an absolute path of a rollout as one within CODEX_HOME; None when it is not one."""
    found = _IN_A_HOME.fullmatch(path) if path is not None else None
    return found.group(1) if found else None


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(codex_home: Path, path: str) -> bytes | None:
    """Return a rollout file; None when it is not there."""
    try:
        return (codex_home / path).read_bytes()
    except FileNotFoundError:
        return None


def write(codex_home: Path, path: str, data: bytes) -> None:
    """Put a rollout file in its place; a reader sees all of it or the file before it. Raises OSError."""
    with replacing(codex_home / path) as file:
        file.write(data)
