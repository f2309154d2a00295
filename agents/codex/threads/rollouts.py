"""Rollouts: the files in which the app-server keeps a thread.

A rollout's path is relative to CODEX_HOME and the same in every home; its digest is the SHA-256 of the file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from chordesk.agents.kept_threads import ROLLOUT_PATH
from chordesk.models.files import replacing
from chordesk.models.masking import SHORTEST_SECRET
from chordesk.models.urls import HIDDEN

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


def without(data: bytes, secrets: Iterable[str]) -> bytes:
    """Return a rollout with these secrets replaced, as its lines spell them: they stay JSON."""
    for secret in (each for each in secrets if len(each) >= SHORTEST_SECRET):
        for spelled in {json.dumps(secret, ensure_ascii=escaped)[1:-1] for escaped in (True, False)}:
            data = data.replace(spelled.encode(), HIDDEN.encode())
    return data
