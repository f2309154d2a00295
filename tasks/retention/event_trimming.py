"""Retention of events: those of runs that ended lately are kept, and the newest of each run; the rest is trimmed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

import redis
import structlog
from sqlalchemy import ColumnElement, Table, and_, delete, func, or_
from sqlmodel import Session, col, select

from chordesk.models import event_log, notices
from chordesk.models.database.store import AWAY, Store
from chordesk.models.events import DESK
from chordesk.models.settings import Settings
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import EventBatch, EventHead, RuntimeItem, RuntimeTurn
from chordesk.tasks.events import lifecycles
from chordesk.tasks.retention.retention_policy import Amount, Amounts, Policy, added, chosen, policy_of, total

log = structlog.get_logger(__name__)

EVENTS = "event"  # its name among amounts
HOURLY_KEY, HOUR_SECONDS = "desk:events-trim", 3600
# Events deleted in one transaction, for which other writers wait.
CHUNK = 5_000
# What a run's turns and items are doing: of no use after its events.
LIFECYCLES: tuple[Table, ...] = (RuntimeTurn.__table__, RuntimeItem.__table__)  # type: ignore[attr-defined]
OF_LIFECYCLES, OF_EVENTS = frozenset(table.name for table in LIFECYCLES), frozenset({"event_batch"})


def trim(store: Store, policy: Policy) -> Amounts:
    """Delete events that are too old or too many, and what goes with them; return how much of each. Safe at any time
    and from several processes."""
    lifecycles.end_left_over_turns(store, policy.now, since=policy.events_before)
    done = Amount()
    for run_id, upto in _due(store, policy):
        size = _amount(store, run_id, upto).bytes
        count = sum(_trim(store, run_id, upto))
        if count:
            done += Amount(count, size)
    beside = _forget_lifecycles(store, policy.events_before)
    with store.session() as session:
        beside = added(beside, _of_notices(session, policy.events_before))
        notices.trim(session, policy.events_before)
    return added({EVENTS: done}, beside)


def emptied(store: Store, policy: Policy) -> Mapping[str, frozenset[str]]:
    with store.read() as session:
        ended = session.exec(select(Run.id).where(col(Run.finished_at) < policy.events_before)).all()
        old = {run_id for run_id, _ in _old(session, policy.events_before)}
    return {run_id: OF_LIFECYCLES | OF_EVENTS if run_id in old else OF_LIFECYCLES for run_id in ended}


def due(store: Store, policy: Policy) -> Amounts:
    """Return what `trim` would delete now, events to within the batch that a limit falls into."""
    ended = select(Run.id).where(col(Run.finished_at) < policy.events_before)
    events = total(_amount(store, run_id, upto) for run_id, upto in _due(store, policy))
    with store.read() as session:
        found = {
            table.name: chosen(session, table, or_(table.c.run_id.in_(ended), _of_no_run(table, policy.events_before)))
            for table in LIFECYCLES
        }
        return added({EVENTS: events}, found, _of_notices(session, policy.events_before))


def _due(store: Store, policy: Policy) -> list[tuple[str, int]]:
    before = policy.events_before
    with store.read() as session:
        return [*_old(session, before), *_old_of_desk(session, before), *_long(session, policy.events_per_run)]


def _amount(store: Store, run_id: str, upto: int) -> Amount:
    count = func.sum(EventBatch.last - EventBatch.first + 1)
    with store.read() as session:
        rows, size = session.exec(
            select(func.coalesce(count, 0), func.coalesce(func.sum(func.length(EventBatch.events)), 0)).where(
                EventBatch.run_id == run_id, EventBatch.last <= upto
            )
        ).one()
    return Amount(int(rows), int(size))


def trim_hourly(client: redis.Redis, store: Store, settings: Settings, now: dt.datetime) -> None:
    try:
        if client.set(HOURLY_KEY, now.isoformat(), nx=True, ex=HOUR_SECONDS):
            done = trim(store, policy_of(settings, now))
            log.info("events.trimmed", events=done[EVENTS].rows if EVENTS in done else 0)
    except (redis.RedisError, *AWAY) as error:
        log.warning("events.not_trimmed", error=str(error).splitlines()[0])


def _old(session: Session, before: dt.datetime) -> list[tuple[str, int]]:
    rows = session.exec(
        select(EventHead.run_id, EventHead.last)
        .join(Run, col(Run.id) == col(EventHead.run_id))
        .where(col(Run.finished_at) < before, EventHead.trimmed < EventHead.last, EventHead.updated_at < before)
    ).all()
    return [(run_id, last) for run_id, last in rows]


def _old_of_desk(session: Session, before: dt.datetime) -> list[tuple[str, int]]:
    last = session.exec(
        select(func.max(EventBatch.last)).where(EventBatch.run_id == DESK, EventBatch.newest_at < before)
    ).one()
    return [(DESK, last)] if last is not None else []


def _long(session: Session, most: int) -> list[tuple[str, int]]:
    """Return runs with more than `most` events, with the sequence to trim up to."""
    rows = session.exec(select(EventHead.run_id, EventHead.last).where(EventHead.last - EventHead.trimmed > most)).all()
    return [(run_id, last - most) for run_id, last in rows]


def _trim(store: Store, run_id: str, upto: int) -> Iterator[int]:
    with store.read() as session:
        place, _ = event_log.head(session, run_id)
    while place < upto:
        place = min(place + CHUNK, upto)
        with store.session() as session:
            yield event_log.trim(session, run_id, place)


def _forget_lifecycles(store: Store, before: dt.datetime) -> Amounts:
    """Delete turns and items of runs that ended before this, and those of no run by their own age; return them by
    table. Conversations stay: they are the run's manifest. The query does not depend on events, so that an interrupted
    trim leaves none."""
    amounts: Amounts = {}
    for table in LIFECYCLES:
        with store.read() as session:
            kept = select(table.c.run_id).where(table.c.run_id == Run.id).exists()
            run_ids = session.exec(select(Run.id).where(col(Run.finished_at) < before, kept)).all()
        for which in [*(table.c.run_id == run_id for run_id in run_ids), _of_no_run(table, before)]:
            with store.session() as session:
                amounts = added(amounts, {table.name: chosen(session, table, which)})
                session.execute(delete(table).where(which))
    return amounts


def _of_no_run(table: Table, before: dt.datetime) -> ColumnElement[bool]:
    return and_(table.c.run_id == DESK, table.c.started_at < before)


def _of_notices(session: Session, before: dt.datetime) -> Amounts:
    """Return what `notices.trim` deletes now, by table."""
    return {table.name: chosen(session, table, which) for table, which in notices.old(before)}
