"""Retention of files: pictures of runs that ended long ago, rollouts and blobs of kept threads."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import redis
import structlog
from sqlalchemy import delete, func, or_
from sqlmodel import Session, col, select

from chordesk.agents.runtime import Registered, ThreadLease, ThreadRecord
from chordesk.models.database.blobs import FOLDER, StoredFile, remove, stored_files
from chordesk.models.database.store import AWAY, Store
from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Artifact, Run, Turn
from chordesk.models.tables.runtime import KeptThread, Rollout
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.retention.retention_policy import HOUR, LEAST_RUN_AGE, Amount, Policy, policy_of, total

log = structlog.get_logger(__name__)

_CHUNK = 500
_MARK = ".looked-after"


def prune_pictures(store: Store, home: Path, policy: Policy) -> Amount:
    """Remove files that no run needs, and return how many. Safe at any time and from several processes."""
    return total(Amount(1, size) for file, size in _unneeded(store, home, policy) if remove(file))


def due_pictures(store: Store, home: Path, policy: Policy) -> Amount:
    return total(Amount(1, size) for _, size in _unneeded(store, home, policy))


def _unneeded(store: Store, home: Path, policy: Policy) -> Iterator[tuple[StoredFile, int]]:
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


def prune_rollouts(settings: Settings, policy: Policy) -> Amount:
    """Remove the app-servers' rollouts of this data folder that are too old, and return how many."""
    removed = Amount()
    for path, size in old_rollouts(settings, policy):
        path.unlink(missing_ok=True)
        removed += Amount(1, size)
        with suppress(OSError):  # another file is in the day's folder
            path.parent.rmdir()
    return removed


def old_rollouts(settings: Settings, policy: Policy) -> Iterator[tuple[Path, int]]:
    """Rollouts unused for longer than threads are kept, with their bytes, but for those of a turn that may be at
    work."""
    before = min(policy.threads_before, policy.now - LEAST_RUN_AGE).timestamp()
    for path in sorted((settings.home / "codex").glob("*/*/sessions/*/*/*/rollout-*.jsonl")):
        with suppress(FileNotFoundError):  # another process was faster
            if (found := path.stat()).st_mtime < before:
                yield path, found.st_size


def prune_hourly(store: Store, settings: Settings, now: dt.datetime) -> None:
    """A failure is logged and retried in the next hour."""
    mark = settings.home / _MARK
    if not any((settings.home / folder).is_dir() for folder in (FOLDER, "codex")):
        return
    try:
        if mark.exists() and now.timestamp() - mark.stat().st_mtime < HOUR.total_seconds():
            return
        mark.touch()
        os.utime(mark, (now.timestamp(), now.timestamp()))
        policy = policy_of(settings, now)
        removed, rollouts = prune_pictures(store, settings.home, policy), prune_rollouts(settings, policy)
        if removed.rows or rollouts.rows:
            log.info(
                "files.removed", pictures=removed.rows, rollouts=rollouts.rows, bytes=removed.bytes + rollouts.bytes
            )
    except (OSError, *AWAY) as error:
        log.warning("files.not_removed", error=str(error).splitlines()[0])


def _needed(session: Session, files: Sequence[StoredFile], before: dt.datetime) -> set[str]:
    """Return the digests still used by a run that is open or ended after the cutoff."""
    rows = session.exec(
        select(Artifact.digest)
        .join(Run, col(Run.id) == col(Artifact.run_id))
        .where(
            col(Artifact.digest).in_([file.digest for file in files]),
            or_(col(Run.finished_at).is_(None), col(Run.finished_at) >= before),
        )
    ).all()
    return set(rows)


# Retention of threads: deletes rollouts beyond the newest few, threads unused for long, and blobs without a
# reference.
#
# A thread is changed under its lease, so never while a conversation uses it.

DAILY_KEY, DAY_SECONDS = "desk:threads-gc", 86_400
_ROWS_AT_ONCE = 500
_ThreadKey = tuple[str, str, str]  # role, subject, id


@dataclass(frozen=True, slots=True)
class Collected:
    """Counts."""

    threads: int = 0  # forgotten, as unused for long
    rollouts: int = 0  # deleted copies
    blobs: int = 0  # deleted, as no row names them
    bytes: int = 0  # of the blobs, as stored
    busy: int = 0  # threads left for the next time, as a conversation used them


def collect_threads(desk: Desk, policy: Policy) -> Collected:
    return asyncio.run(_collect(desk, policy))


def due_threads(desk: Desk, policy: Policy) -> Collected:
    return asyncio.run(_count(desk, policy))


def collect_threads_daily(desk: Desk) -> None:
    try:
        if desk.redis_client.set(DAILY_KEY, desk.owner, nx=True, ex=DAY_SECONDS):
            log.info("threads.gc", **asdict(collect_threads(desk, policy_of(desk.settings, utcnow()))))
    except (DeskError, redis.RedisError) as error:
        log.warning("threads.gc_failed", error=str(error))


async def _collect(desk: Desk, policy: Policy) -> Collected:
    threads = rollouts = busy = 0
    async with desk.thread_records() as registry:
        records = await registry.records()
        for role, subject, thread_id in _due(desk.store, policy, records):
            async with registry.hold(role, subject, lambda: 0) as lease:
                if not lease.held:
                    busy += 1
                    continue
                forgotten, deleted = await _clear(desk.store, lease, thread_id, policy)
                threads, rollouts = threads + forgotten, rollouts + deleted
        blobs, size = _delete_unnamed(desk, policy, await registry.records())
    _delete_traceless(desk.store, policy)
    return Collected(threads, rollouts, blobs, size, busy)


async def _count(desk: Desk, policy: Policy) -> Collected:
    threads = rollouts = 0
    async with desk.thread_records() as registry:
        records = await registry.records()
    gone: set[tuple[str, int]] = set()
    by_thread = {one.record.thread_id: one.record for one in records}
    due = [thread_id for _, _, thread_id in _due(desk.store, policy, records)]
    kept = _copies(desk.store, due)
    for thread_id in due:
        old, copies = _gone(kept[thread_id], by_thread.get(thread_id), policy)
        threads, rollouts = threads + old, rollouts + len(copies)
        gone |= {(copy.thread_id, copy.generation) for copy in copies}
    with desk.store.read() as session:
        rows = session.exec(select(Rollout.thread_id, Rollout.generation, Rollout.digest)).all()
    named = {digest for thread_id, generation, digest in rows if (thread_id, generation) not in gone}
    unnamed = desk.vault.blobs.stored(policy.now) - named
    return Collected(threads, rollouts, len(unnamed), desk.vault.blobs.size(unnamed))


def _due(store: Store, policy: Policy, records: Iterable[Registered]) -> list[_ThreadKey]:
    """Return the threads with copies to delete, and the registered ones unused for long, each once."""
    newest, copies = func.max(Rollout.created_at), func.count()
    statement = (
        select(KeptThread.role, KeptThread.subject, KeptThread.thread_id)
        .join(Rollout, col(Rollout.thread_id) == col(KeptThread.thread_id))
        .group_by(KeptThread.role, KeptThread.subject, KeptThread.thread_id)
        .having((newest < policy.threads_before) | (copies > policy.copies))
    )
    with store.read() as session:
        due_threads = [(role, subject, thread_id) for role, subject, thread_id in session.exec(statement).all()]
    unused = (one for one in records if _used(one.record) < policy.threads_before)
    due_threads += [(one.role, one.subject, one.record.thread_id) for one in unused]
    return list(dict.fromkeys(due_threads))


def _used(record: ThreadRecord) -> dt.datetime:
    return dt.datetime.fromtimestamp(record.updated_at, dt.UTC)


async def _clear(store: Store, lease: ThreadLease, thread_id: str, policy: Policy) -> tuple[bool, int]:
    record = lease.record if lease.record is not None and lease.record.thread_id == thread_id else None
    old, gone = _gone(_copies(store, [thread_id])[thread_id], record, policy)
    if old and record is not None and not await lease.forget():
        return False, 0
    _delete(store, thread_id, gone)
    return old, len(gone)


def _copies(store: Store, thread_ids: Sequence[str]) -> Mapping[str, Sequence[Rollout]]:
    """Return the copies of each thread, newest first."""
    found: dict[str, list[Rollout]] = {thread_id: [] for thread_id in thread_ids}
    for first in range(0, len(thread_ids), _ROWS_AT_ONCE):
        some = col(Rollout.thread_id).in_(thread_ids[first : first + _ROWS_AT_ONCE])
        with store.read() as session:
            for copy in session.exec(select(Rollout).where(some).order_by(col(Rollout.generation).desc())):
                found[copy.thread_id].append(copy)
    return found


def _gone(copies: Sequence[Rollout], record: ThreadRecord | None, policy: Policy) -> tuple[bool, Sequence[Rollout]]:
    """Return (whether a thread is to be forgotten, copies to delete). The registry's copy always stays."""
    uses = [copy.created_at for copy in copies] + ([_used(record)] if record is not None else [])
    if not uses:
        return False, []
    if all(use < policy.threads_before for use in uses):
        return True, copies
    meant = record.rollout_digest if record is not None else None
    return False, [copy for copy in copies[policy.copies :] if copy.digest != meant]


def _delete(store: Store, thread_id: str, copies: Sequence[Rollout]) -> None:
    if not copies:
        return
    with store.session() as session:
        which = col(Rollout.generation).in_([copy.generation for copy in copies])
        session.connection().execute(delete(Rollout).where(col(Rollout.thread_id) == thread_id, which))


def _delete_traceless(store: Store, policy: Policy) -> None:
    """Delete the rows of threads that have neither a copy nor a turn left, once their run may go."""
    if policy.runs_before is None:
        return
    copy = select(Rollout.thread_id).where(Rollout.thread_id == KeptThread.thread_id)
    turn = select(Turn.id).where(Turn.thread_id == KeptThread.thread_id)
    old = col(KeptThread.created_at) < min(policy.runs_before, policy.threads_before)
    with store.read() as session:
        gone = session.exec(select(KeptThread.thread_id).where(old, ~copy.exists(), ~turn.exists())).all()
    for first in range(0, len(gone), _ROWS_AT_ONCE):
        with store.session() as session:
            some = col(KeptThread.thread_id).in_(gone[first : first + _ROWS_AT_ONCE])
            session.connection().execute(delete(KeptThread).where(some))


def _delete_unnamed(desk: Desk, policy: Policy, records: Iterable[Registered]) -> tuple[int, int]:
    """Return how many blobs were deleted, as no row and no record names them, and their bytes."""
    blobs = desk.vault.blobs
    stored = blobs.stored(policy.blobs_before)
    with desk.store.read() as session:
        named = set(session.exec(select(Rollout.digest).distinct()).all())
    named |= {one.record.rollout_digest for one in records if one.record.rollout_digest is not None}
    size = blobs.size(stored - named)
    return blobs.delete(stored - named, policy.blobs_before), size
