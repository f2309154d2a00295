"""Retention of events: those of runs that ended lately are kept, and the newest of each run; the rest is trimmed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import redis
import structlog
from sqlalchemy import delete, func
from sqlmodel import Session, col, select

from models.database.store import Store
from models.events import event_log
from models.events.envelope import DESK
from models.settings import Settings
from models.tables.events import EventBatch, EventHead, RuntimeItem, RuntimeTurn
from models.tables.runs import Run
from tasks.events import lost_turns
from tasks.events.sources import AWAY

log = structlog.get_logger(__name__)

HOURLY_KEY, HOUR_SECONDS = "desk:events-trim", 3600
# Events deleted in one transaction, for which other writers wait.
CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Number of events trimmed, and of their runs."""

    runs: int = 0
    events: int = 0


def trim(store: Store, settings: Settings, now: dt.datetime) -> Trimmed:
    """Trim events that are too old or too many as of now. Safe at any time and from several processes."""
    before = now - dt.timedelta(days=settings.event_days)
    lost_turns.end_left_over(store, now, since=before)
    runs = events = 0
    with store.read() as session:
        due = [*_old(session, before), *_old_of_desk(session, before), *_long(session, settings.events_per_run)]
    for run_id, upto in due:
        count = sum(_trim(store, run_id, upto))
        runs, events = runs + (count > 0), events + count
    _forget_lifecycles(store, before)
    return Trimmed(runs, events)


def trim_hourly(client: redis.Redis, store: Store, settings: Settings, now: dt.datetime) -> None:
    """Trim once an hour, in whichever process comes first; a failure is logged and retried in the next hour."""
    try:
        if client.set(HOURLY_KEY, now.isoformat(), nx=True, ex=HOUR_SECONDS):
            done = trim(store, settings, now)
            log.info("events.trimmed", runs=done.runs, events=done.events)
    except (redis.RedisError, *AWAY) as error:
        log.warning("events.not_trimmed", error=str(error).splitlines()[0])


def _old(session: Session, before: dt.datetime) -> list[tuple[str, int]]:
    """Return runs that ended before this, with their last sequences."""
    rows = session.exec(
        select(EventHead.run_id, EventHead.last)
        .join(Run, col(Run.id) == col(EventHead.run_id))
        .where(col(Run.finished_at) < before, EventHead.trimmed < EventHead.last, EventHead.updated_at < before)
    ).all()
    return [(run_id, last) for run_id, last in rows]


def _old_of_desk(session: Session, before: dt.datetime) -> list[tuple[str, int]]:
    """Return the last old sequence of the events of no run: these have no end, so their own age counts."""
    last = session.exec(
        select(func.max(EventBatch.last)).where(EventBatch.run_id == DESK, EventBatch.newest_at < before)
    ).one()
    return [(DESK, last)] if last is not None else []


def _long(session: Session, most: int) -> list[tuple[str, int]]:
    """Return runs with more than `most` events, with the sequence to trim up to."""
    rows = session.exec(select(EventHead.run_id, EventHead.last).where(EventHead.last - EventHead.trimmed > most)).all()
    return [(run_id, last - most) for run_id, last in rows]


def _trim(store: Store, run_id: str, upto: int) -> Iterator[int]:
    """Trim from the oldest on, a chunk a transaction; yield the number of events that each deleted."""
    with store.read() as session:
        place, _ = event_log.head(session, run_id)
    while place < upto:
        place = min(place + CHUNK, upto)
        with store.session() as session:
            yield event_log.trim(session, run_id, place)


def _forget_lifecycles(store: Store, before: dt.datetime) -> None:
    """Delete turns and items of runs that ended before this, and those of no run by their own age. Conversations stay:
    they are the run's manifest. The query does not depend on events, so that an interrupted trim leaves none."""
    for model in (RuntimeTurn, RuntimeItem):
        with store.read() as session:
            kept = select(model.run_id).where(model.run_id == Run.id).exists()
            run_ids = session.exec(select(Run.id).where(col(Run.finished_at) < before, kept)).all()
        for run_id in run_ids:
            with store.session() as session:
                session.execute(delete(model).where(col(model.run_id) == run_id))
        with store.session() as session:
            session.execute(delete(model).where(col(model.run_id) == DESK, col(model.started_at) < before))
