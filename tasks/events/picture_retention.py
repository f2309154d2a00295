"""Retention of pictures: files of runs that go on or ended lately are kept, others are removed. Their rows stay.

Each process looks after the data folder that it writes to, so that on a fleet every research worker does.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence

import structlog
from sqlalchemy import or_
from sqlmodel import Session, col, select

from models.database.artifacts import FOLDER, StoredFile, remove, stored_files
from models.database.store import Store
from models.settings import Settings
from models.tables.runs import Artifact, Run
from tasks.events.sources import AWAY

log = structlog.get_logger(__name__)

HOUR = dt.timedelta(hours=1)
# A file without a row may be one that a running turn has just been given.
_LEAST_AGE = dt.timedelta(days=1)
_CHUNK = 500
_MARK = ".looked-after"


def prune(store: Store, settings: Settings, now: dt.datetime) -> int:
    """Remove the files that no run needs any more as of now, and return how many. Safe at any time and from several
    processes."""
    if not settings.keep_artifact_days:
        return 0
    before = now - max(dt.timedelta(days=settings.keep_artifact_days), _LEAST_AGE)
    old = [file for file in stored_files(settings.home) if file.at < before]
    removed = 0
    for place in range(0, len(old), _CHUNK):
        some = old[place : place + _CHUNK]
        with store.read() as session:
            needed = _needed(session, some, before)
        removed += sum(remove(file) for file in some if file.digest not in needed)
    return removed


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
        if removed := prune(store, settings, now):
            log.info("pictures.removed", files=removed)
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
