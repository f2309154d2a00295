"""Retention of pictures: files of runs that go on or ended lately are kept, others are removed. Their rows stay.

Each process looks after the data folder that it writes to, so that on a fleet every research worker does.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import structlog
from sqlalchemy import or_
from sqlmodel import Session, col, select

from chordesk.models.database.artifacts import FOLDER, StoredFile, remove, stored_files
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.runs import Artifact, Run
from chordesk.tasks.events.sources import AWAY
from chordesk.tasks.retention.amounts import Amount, total
from chordesk.tasks.retention.policy import HOUR, Policy, policy_of

log = structlog.get_logger(__name__)

_CHUNK = 500
_MARK = ".looked-after"


def prune(store: Store, home: Path, policy: Policy) -> Amount:
    """Remove the data folder's files that no run needs any more, and return how many. Safe at any time and from several
    processes."""
    return total(Amount(1, size) for file, size in _unneeded(store, home, policy) if remove(file))


def due(store: Store, home: Path, policy: Policy) -> Amount:
    """Return the files that `prune` would remove now."""
    return total(Amount(1, size) for _, size in _unneeded(store, home, policy))


def _unneeded(store: Store, home: Path, policy: Policy) -> Iterator[tuple[StoredFile, int]]:
    """Yield the files that no run needs, each with its size in bytes."""
    before = policy.pictures_before
    if before is None:
        return
    old = [file for file in stored_files(home) if file.at < before]
    for place in range(0, len(old), _CHUNK):
        some = old[place : place + _CHUNK]
        with store.read() as session:
            needed = _needed(session, some, before)
        for file in some:
            if file.digest not in needed:
                with suppress(FileNotFoundError):  # another process was faster
                    yield file, file.path.stat().st_size


def prune_hourly(store: Store, settings: Settings, now: dt.datetime) -> None:
    """Prune this process's data folder, unless that was done within the hour; a failure is logged and retried in the
    next one."""
    folder = settings.home / FOLDER
    mark = folder / _MARK
    if not settings.keep_artifact_days or not folder.is_dir():
        return
    try:
        if mark.exists() and now.timestamp() - mark.stat().st_mtime < HOUR.total_seconds():
            return
        mark.touch()
        os.utime(mark, (now.timestamp(), now.timestamp()))
        removed = prune(store, settings.home, policy_of(settings, now))
        if removed.rows:
            log.info("pictures.removed", files=removed.rows, bytes=removed.bytes)
    except (OSError, *AWAY) as error:
        log.warning("pictures.not_removed", error=str(error).splitlines()[0])


def _needed(session: Session, files: Sequence[StoredFile], before: dt.datetime) -> set[str]:
    """Return the digests of which some row is of a run that goes on, or ended since."""
    rows = session.exec(
        select(Artifact.digest)
        .join(Run, col(Run.id) == col(Artifact.run_id))
        .where(
            col(Artifact.digest).in_([file.digest for file in files]),
            or_(col(Run.finished_at).is_(None), col(Run.finished_at) >= before),
        )
    ).all()
    return set(rows)
