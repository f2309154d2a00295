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

from agents.kept_threads import Registered, ThreadLease, ThreadRecord
from models.database.store import Store
from models.errors import DeskError
from models.settings import Settings
from models.tables.columns import utcnow
from models.tables.threads import KeptThread, Rollout
from tasks.bootstrap import Desk

log = structlog.get_logger(__name__)

DAILY_KEY, DAY_SECONDS = "desk:threads-gc", 86_400
# A blob is stored before the row that names it.
UNNAMED = dt.timedelta(hours=1)
_ThreadKey = tuple[str, str, str]  # role, subject, id


@dataclass(frozen=True, slots=True)
class Collected:
    """Counts. threads: forgotten, as unused for long. rollouts: deleted copies. blobs: deleted, as no row names them.
    busy: threads left for the next time, as a conversation used them."""

    threads: int = 0
    rollouts: int = 0
    blobs: int = 0
    busy: int = 0


def collect(desk: Desk, now: dt.datetime) -> Collected:
    """Delete everything that is due at `now`. Safe at any time and from several processes. Raises ServiceError."""
    return asyncio.run(_collect(desk, now))


def collect_daily(desk: Desk) -> None:
    """Collect once a day, in the process that comes first; log a failure and retry the next day."""
    try:
        if desk.redis_client.set(DAILY_KEY, desk.owner, nx=True, ex=DAY_SECONDS):
            log.info("threads.gc", **asdict(collect(desk, utcnow())))
    except (DeskError, redis.RedisError) as error:
        log.warning("threads.gc_failed", error=str(error))


async def _collect(desk: Desk, now: dt.datetime) -> Collected:
    unused = now - dt.timedelta(days=desk.settings.rollout_days)
    threads = rollouts = busy = 0
    async with desk.thread_records() as registry:
        records = await registry.records()
        for role, subject, thread_id in _due(desk.store, desk.settings, unused, records):
            async with registry.hold(role, subject, lambda: 0) as lease:
                if not lease.held:
                    busy += 1
                    continue
                forgotten, deleted = await _clear(desk, lease, thread_id, unused)
                threads, rollouts = threads + forgotten, rollouts + deleted
        blobs = _delete_unnamed(desk, now, await registry.records())
    return Collected(threads, rollouts, blobs, busy)


def _due(store: Store, settings: Settings, unused: dt.datetime, records: Iterable[Registered]) -> list[_ThreadKey]:
    """Return the threads with copies to delete, and the registered ones unused for long, each once."""
    newest, copies = func.max(Rollout.created_at), func.count()
    statement = (
        select(KeptThread.role, KeptThread.subject, KeptThread.thread_id)
        .join(Rollout, col(Rollout.thread_id) == col(KeptThread.thread_id))
        .group_by(KeptThread.role, KeptThread.subject, KeptThread.thread_id)
        .having((newest < unused) | (copies > settings.rollouts_kept))
    )
    with store.read() as session:
        due = [(role, subject, thread_id) for role, subject, thread_id in session.exec(statement).all()]
    due += [(one.role, one.subject, one.record.thread_id) for one in records if _used(one.record) < unused]
    return list(dict.fromkeys(due))


def _used(record: ThreadRecord) -> dt.datetime:
    return dt.datetime.fromtimestamp(record.updated_at, dt.UTC)


async def _clear(desk: Desk, lease: ThreadLease, thread_id: str, unused: dt.datetime) -> tuple[bool, int]:
    """Return (whether the thread was forgotten, copies deleted). The copy that the registry refers to always stays."""
    record = lease.record if lease.record is not None and lease.record.thread_id == thread_id else None
    with desk.store.read() as session:
        copies = session.exec(
            select(Rollout).where(Rollout.thread_id == thread_id).order_by(col(Rollout.generation).desc())
        ).all()
    if not copies and record is None:
        return False, 0
    uses = [copy.created_at for copy in copies] + ([_used(record)] if record is not None else [])
    old = all(use < unused for use in uses)
    if old and record is not None and not await lease.forget():
        return False, 0
    meant = record.rollout_digest if record is not None else None
    gone = copies if old else [copy for copy in copies[desk.settings.rollouts_kept :] if copy.digest != meant]
    _delete(desk.store, thread_id, gone)
    return old, len(gone)


def _delete(store: Store, thread_id: str, copies: Sequence[Rollout]) -> None:
    if not copies:
        return
    with store.session() as session:
        which = col(Rollout.generation).in_([copy.generation for copy in copies])
        session.connection().execute(delete(Rollout).where(col(Rollout.thread_id) == thread_id, which))


def _delete_unnamed(desk: Desk, now: dt.datetime, records: Iterable[Registered]) -> int:
    before = now - UNNAMED
    blobs = desk.vault.blobs
    stored = blobs.stored(before)
    with desk.store.read() as session:
        named = set(session.exec(select(Rollout.digest).distinct()).all())
    named |= {one.record.rollout_digest for one in records if one.record.rollout_digest is not None}
    return blobs.delete(stored - named, before)
