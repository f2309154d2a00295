"""Retention of threads: deletes rollouts beyond the newest few, threads unused for long, and blobs without a reference.

A thread is changed under its lease, so never while a conversation uses it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import redis
import structlog
from sqlalchemy import delete, func
from sqlmodel import col, select

from chordesk.agents.kept_threads import Registered, ThreadLease, ThreadRecord
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.threads import KeptThread, Rollout
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.retention.policy import Policy, policy_of

log = structlog.get_logger(__name__)

DAILY_KEY, DAY_SECONDS = "desk:threads-gc", 86_400
_ThreadKey = tuple[str, str, str]  # role, subject, id


@dataclass(frozen=True, slots=True)
class Collected:
    """Counts. threads: forgotten, as unused for long. rollouts: deleted copies. blobs: deleted, as no row names them.
    bytes: of the blobs, as stored. busy: threads left for the next time, as a conversation used them."""

    threads: int = 0
    rollouts: int = 0
    blobs: int = 0
    bytes: int = 0
    busy: int = 0


def collect(desk: Desk, policy: Policy) -> Collected:
    """Delete everything that is due. Safe at any time and from several processes. Raises ServiceError."""
    return asyncio.run(_collect(desk, policy))


def due(desk: Desk, policy: Policy) -> Collected:
    """Return what `collect` would delete if no thread were in use, and no blob young. Raises ServiceError."""
    return asyncio.run(_count(desk, policy))


def collect_daily(desk: Desk) -> None:
    """Collect once a day, in the process that comes first; log a failure and retry the next day."""
    try:
        if desk.redis_client.set(DAILY_KEY, desk.owner, nx=True, ex=DAY_SECONDS):
            log.info("threads.gc", **asdict(collect(desk, policy_of(desk.settings, utcnow()))))
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
    return Collected(threads, rollouts, blobs, size, busy)


async def _count(desk: Desk, policy: Policy) -> Collected:
    threads = rollouts = 0
    async with desk.thread_records() as registry:
        records = await registry.records()
    gone: set[tuple[str, int]] = set()
    by_thread = {one.record.thread_id: one.record for one in records}
    for _, _, thread_id in _due(desk.store, policy, records):
        old, copies = _gone(desk.store, by_thread.get(thread_id), thread_id, policy)
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
        due = [(role, subject, thread_id) for role, subject, thread_id in session.exec(statement).all()]
    unused = (one for one in records if _used(one.record) < policy.threads_before)
    due += [(one.role, one.subject, one.record.thread_id) for one in unused]
    return list(dict.fromkeys(due))


def _used(record: ThreadRecord) -> dt.datetime:
    return dt.datetime.fromtimestamp(record.updated_at, dt.UTC)


async def _clear(store: Store, lease: ThreadLease, thread_id: str, policy: Policy) -> tuple[bool, int]:
    """Return (whether the thread was forgotten, copies deleted)."""
    record = lease.record if lease.record is not None and lease.record.thread_id == thread_id else None
    old, gone = _gone(store, record, thread_id, policy)
    if old and record is not None and not await lease.forget():
        return False, 0
    _delete(store, thread_id, gone)
    return old, len(gone)


def _gone(store: Store, record: ThreadRecord | None, thread_id: str, policy: Policy) -> tuple[bool, Sequence[Rollout]]:
    """Return (whether a thread is to be forgotten, copies to delete). The copy that the registry refers to always
    stays."""
    with store.read() as session:
        copies = session.exec(
            select(Rollout).where(Rollout.thread_id == thread_id).order_by(col(Rollout.generation).desc())
        ).all()
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


def _delete_unnamed(desk: Desk, policy: Policy, records: Iterable[Registered]) -> tuple[int, int]:
    """Return how many blobs were deleted, as no row and no record names them, and their bytes."""
    blobs = desk.vault.blobs
    stored = blobs.stored(policy.blobs_before)
    with desk.store.read() as session:
        named = set(session.exec(select(Rollout.digest).distinct()).all())
    named |= {one.record.rollout_digest for one in records if one.record.rollout_digest is not None}
    size = blobs.size(stored - named)
    return blobs.delete(stored - named, policy.blobs_before), size
