"""Homes of desks under test, each with the name of its owner in it, so that those of killed runs can be found."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from chordesk.tasks.services.supervision import ProcessRecord

OWNER = "owner.json"
UNNAMED_SECONDS = 60.0


def base() -> Path:
    """Where the homes are. A short path: a unix socket's is limited to about 100 bytes. Not under the temp folder's
    root: the app-server refuses a home there."""
    return Path(os.environ.get("DESK_TEST_HOMES", Path.home() / ".cache" / "chordesk-tests"))


@contextlib.contextmanager
def owned(at: Path | None = None) -> Iterator[Path]:
    """A home of this process; it goes with the block. Those of processes that were killed go first. at: folder of such
    homes and of nothing else, in place of the usual one."""
    folder = at or base()
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    home = Path(tempfile.mkdtemp(prefix="d-", dir=folder))
    try:
        row = {"pid": os.getpid(), "created": psutil.Process().create_time()}
        (home / OWNER).write_text(json.dumps(row), encoding="utf-8")
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def sweep(folder: Path | None = None) -> None:
    """Remove the homes of owners that have ended."""
    for home in (folder or base()).glob("d-*"):
        if not _in_use(home):
            shutil.rmtree(home, ignore_errors=True)


def _in_use(home: Path) -> bool:
    try:
        row = json.loads((home / OWNER).read_text(encoding="utf-8"))
        return ProcessRecord(row["pid"], row["created"], "").process() is not None
    except (OSError, ValueError, KeyError):
        pass
    # Its owner may be about to write its name.
    with contextlib.suppress(OSError):
        return time.time() - home.stat().st_mtime < UNNAMED_SECONDS
    return False
