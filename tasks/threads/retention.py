"""What is kept of threads, and what goes: copies beyond the newest few, threads unused for long, blobs nothing names.

A thread is dealt with under its lease, so never while a conversation is in it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import redis.asyncio
import structlog
from sqlalchemy import delete, func
from sqlmodel import col, select

from agents.codex.threads import Lease, Registered, ThreadRecord, ThreadRegistry
from models.columns import utcnow
from models.errors import DeskError
from models.settings import Settings
from models.store import Store
from models.thread_tables import KeptThread, Rollout
from tasks.bootstrap import Desk, redis_url

log = structlog.get_logger(__name__)

DAILY_KEY, DAY_SECONDS = "desk:threads-gc", 86_400
# A blob is stored before the row that names it.
UNNAMED = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Collected:
    """How many. threads: forgotten, for they were not used for long. rollouts: copies of which no row tells any more.
    blobs: deleted, since no row named them. busy: threads left for another time, since a conversation was in them."""

    threads: int = 0
    rollouts: int = 0
    blobs: int = 0
    busy: int = 0


@dataclass(frozen=True, slots=True)
class _Due:
    """A thread with copies to delete, or a registered one that was not used for long."""

    role: str
    subject: str
    thread_id: str


def collect(desk: Desk, now: dt.datetime) -> Collected:
    """Deletes what is to go as of now. Safe at any time and from several processes. Raises ServiceError."""
    return asyncio.run(_collect(desk, now))


def collect_daily(desk: Desk) -> None:
    """The same once a day, whoever comes first; what goes wrong is logged, and tried again the next day."""
    try:
        if desk.redis_client.set(DAILY_KEY, desk.owner, nx=True, ex=DAY_SECONDS):
            log.info("threads.gc", **_told(collect(desk, utcnow())))
    except (DeskError, redis.RedisError) as error:
        log.warning("threads.gc_failed", error=str(error))


def _told(done: Collected) -> dict[str, int]:
    return {"threads": done.threads, "rollouts": done.rollouts, "blobs": done.blobs, "busy": done.busy}


async def _collect(desk: Desk, now: dt.datetime) -> Collected:
    unused = now - dt.timedelta(days=desk.settings.rollout_days)
    client = redis.asyncio.from_url(redis_url(desk.settings))
    registry = ThreadRegistry(client, desk.settings.lease_seconds)
    threads = rollouts = busy = 0
    try:
        records = await registry.records()
        for due in _due(desk.store, desk.settings, unused, records):
            async with registry.hold(due.role, due.subject, lambda: 0) as lease:
                if not lease.held:
                    busy += 1
                    continue
                forgotten, deleted = await _clear(desk, lease, due.thread_id, unused)
                threads, rollouts = threads + forgotten, rollouts + deleted
        blobs = _delete_unnamed(desk, now, await registry.records())
    finally:
        await client.aclose()
    return Collected(threads, rollouts, blobs, busy)


def _due(store: Store, settings: Settings, unused: dt.datetime, records: Iterable[Registered]) -> list[_Due]:
    newest, copies = func.max(Rollout.created_at), func.count()
    statement = (
        select(KeptThread.role, KeptThread.subject, KeptThread.thread_id)
        .join(Rollout, col(Rollout.thread_id) == col(KeptThread.thread_id))
        .group_by(KeptThread.role, KeptThread.subject, KeptThread.thread_id)
        .having((newest < unused) | (copies > settings.rollouts_kept))
    )
    with store.read() as session:
        due = {_Due(*row): None for row in session.exec(statement).all()}
    for one in records:
        if _used(one.record) < unused:
            due[_Due(one.role, one.subject, one.record.thread_id)] = None
    return list(due)


def _used(record: ThreadRecord) -> dt.datetime:
    return dt.datetime.fromtimestamp(record.updated_at, dt.UTC)


async def _clear(desk: Desk, lease: Lease, thread_id: str, unused: dt.datetime) -> tuple[bool, int]:
    """(whether the thread was forgotten, copies deleted). The copy that the registry means always stays."""
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
