"""What is kept of events: those of runs that ended lately, and of one run the newest. The rest is trimmed, and who asks
for it is told so."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import redis
import structlog
from sqlalchemy import delete, func
from sqlmodel import Session, col, select

from models import event_log
from models.event_tables import EventBatch, EventHead, RuntimeItem, RuntimeTurn
from models.events import DESK
from models.settings import Settings
from models.store import Store
from models.tables import Run
from tasks.events import lost_turns
from tasks.events.sources import AWAY

log = structlog.get_logger(__name__)

HOURLY_KEY, HOUR_SECONDS = "desk:events-trim", 3600
# Deleted in one transaction: other writers wait for it.
CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Trimmed:
    """How many events of how many runs."""

    runs: int = 0
    events: int = 0


def trim(store: Store, settings: Settings, now: dt.datetime) -> Trimmed:
    """Trims what is too old or too much as of now. Safe at any time and from several processes."""
    before = now - dt.timedelta(days=settings.event_days)
    lost_turns.end_left_over(store, now, since=before)
    runs = events = 0
    with store.read() as session:
        due = [*_old(session, before), *_old_of_the_desk(session, before), *_long(session, settings.events_per_run)]
    for run_id, upto in due:
        count = sum(_trim(store, run_id, upto))
        runs, events = runs + (count > 0), events + count
    _forget_lifecycles(store, before)
    return Trimmed(runs, events)


def trim_hourly(client: redis.Redis, store: Store, settings: Settings, now: dt.datetime) -> None:
    """The same once an hour, whoever comes first; what goes wrong is logged, and tried again in the next hour."""
    try:
        if client.set(HOURLY_KEY, now.isoformat(), nx=True, ex=HOUR_SECONDS):
            done = trim(store, settings, now)
            log.info("events.trimmed", runs=done.runs, events=done.events)
    except (redis.RedisError, *AWAY) as error:
        log.warning("events.not_trimmed", error=str(error).splitlines()[0])


def _old(session: Session, before: dt.datetime) -> list[tuple[str, int]]:
    """Whole runs that ended before this."""
    rows = session.exec(
        select(EventHead.run_id, EventHead.last)
        .join(Run, col(Run.id) == col(EventHead.run_id))
        .where(col(Run.finished_at) < before, EventHead.trimmed < EventHead.last, EventHead.updated_at < before)
    ).all()
    return [(run_id, last) for run_id, last in rows]


def _old_of_the_desk(session: Session, before: dt.datetime) -> list[tuple[str, int]]:
    """What belongs to no run has no end: its own age counts."""
    last = session.exec(
        select(func.max(EventBatch.last)).where(EventBatch.run_id == DESK, EventBatch.newest_at < before)
    ).one()
    return [(DESK, last)] if last is not None else []


def _long(session: Session, most: int) -> list[tuple[str, int]]:
    rows = session.exec(select(EventHead.run_id, EventHead.last).where(EventHead.last - EventHead.trimmed > most)).all()
    return [(run_id, last - most) for run_id, last in rows]


def _trim(store: Store, run_id: str, upto: int) -> Iterator[int]:
    """Trims from the oldest on, a chunk a transaction; how many events each deleted."""
    with store.read() as session:
        place, _ = event_log.head(session, run_id)
    while place < upto:
        place = min(place + CHUNK, upto)
        with store.session() as session:
            yield event_log.trim(session, run_id, place)


def _forget_lifecycles(store: Store, before: dt.datetime) -> None:
    """Turns and items of runs that ended before this, and those of no run by their own age. Their conversations stay:
    they are the run's manifest. Found by themselves, so that a trim that was cut short leaves none for ever."""
    for model in (RuntimeTurn, RuntimeItem):
        with store.read() as session:
            kept = select(model.run_id).where(model.run_id == Run.id).exists()
            run_ids = session.exec(select(Run.id).where(col(Run.finished_at) < before, kept)).all()
        for run_id in run_ids:
            with store.session() as session:
                session.execute(delete(model).where(col(model.run_id) == run_id))
        with store.session() as session:
            session.execute(delete(model).where(col(model.run_id) == DESK, col(model.started_at) < before))
