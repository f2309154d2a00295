"""The event log in the database: append, read, trim. Sequences are assigned here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any

from sqlalchemy import Table, bindparam, delete, func, select, update
from sqlalchemy.sql.dml import ReturningInsert
from sqlmodel import Session

from chordesk.models import notices
from chordesk.models.errors import HistoryTrimmed
from chordesk.models.events import MOST, Batch, Envelope, EventType, batches, rows_of
from chordesk.models.tables.columns import insert_for, utcnow
from chordesk.models.tables.runtime import EventBatch, EventHead

_OWN = frozenset(EventType)
# Keys of a session's info: events to store before its commit, and batches to publish after it.
_TO_ADD, _ADDED = "events_to_add", "events_added"
_batches: Table = EventBatch.__table__  # type: ignore[attr-defined]
_heads: Table = EventHead.__table__  # type: ignore[attr-defined]


def append(session: Session, events: Iterable[Envelope]) -> None:
    """Add events to this transaction, each run's in the order given. They get their sequences just before the commit
    (`write`), so that a transaction may append several times and still holds no run's head while it works on other
    rows."""
    given = list(events)
    for one in given:
        if one.type not in _OWN and not one.type.is_known:
            raise ValueError(f"{one.type} is no type of event: the feature describes it in event_kinds, and is on")
    session.info.setdefault(_TO_ADD, []).extend(given)


append_events = append  # its name for packages


def hand_over(session: Session, whole: Session) -> None:
    """Let the transaction that this one is a part of store its events and notices."""
    append(whole, session.info.pop(_TO_ADD, ()))
    notices.hand_over(session, whole)


def write(session: Session) -> None:
    """Assign sequences to the appended events and store them, with their notices: the last statements of a writing
    transaction. The heads are locked in one order whatever the events' order is, so that two writers never wait for
    each other."""
    appended = session.info.pop(_TO_ADD, ())
    notices.write(session, appended)
    by_run: dict[str, list[Envelope]] = {}
    for one in appended:
        by_run.setdefault(one.run_id, []).append(one)
    if not by_run:
        return
    session.flush()
    stored: list[Batch] = []
    for run_id in sorted(by_run):
        some = by_run[run_id]
        stored += batches(run_id, _take(session, run_id, len(some)), some)
    session.connection().execute(_batches.insert(), [_row(one) for one in stored])
    session.info.setdefault(_ADDED, []).extend(stored)


def added(session: Session) -> Sequence[Batch]:
    found: Sequence[Batch] = session.info.get(_ADDED, ())
    return found


def read(session: Session, run_id: str, after: int, limit: int) -> list[Envelope]:
    """Return the first events of a run after the sequence `after`, in order and without a gap. Raises HistoryTrimmed
    when the next ones are trimmed."""
    trimmed, last = head(session, run_id)
    if after < trimmed:
        raise HistoryTrimmed(run_id, after, trimmed, last)
    later = (_batches.c.run_id == run_id, _batches.c.last > after)
    next_one = select(func.min(_batches.c.last)).where(*later).scalar_subquery()
    # The next batch, wherever it is, and all that can begin within the limit after it.
    statement = select(_batches.c.events, _batches.c.first).where(*later, _batches.c.last < next_one + limit + MOST)
    stored = session.connection().execute(statement.order_by(_batches.c.last)).all()
    later_ones = (islice(rows_of(text, first), max(after - first + 1, 0), None) for text, first in stored)
    found = [Envelope.model_validate(row) for row in islice(chain.from_iterable(later_ones), limit)]
    for place, one in enumerate(found):
        if (sequence := one.sequence or 0) != after + place + 1:  # a row is missing
            if place == 0:
                raise HistoryTrimmed(run_id, after, sequence - 1, last)
            return found[:place]
    return found


def head(session: Session, run_id: str) -> tuple[int, int]:
    """Return (last trimmed sequence, last sequence) of a run; zeros when it has no events."""
    statement = select(_heads.c.trimmed, _heads.c.last).where(_heads.c.run_id == run_id)
    row = session.connection().execute(statement).one_or_none()
    return (row[0], row[1]) if row is not None else (0, 0)


def trim(session: Session, run_id: str, upto: int) -> int:
    """Delete a run's events up to and including a sequence, and return how many. Reading them raises HistoryTrimmed
    from then on. The row of a batch is deleted with the last of its events."""
    before = select(_heads.c.trimmed, _heads.c.last).where(_heads.c.run_id == run_id).with_for_update()
    trimmed, last = session.connection().execute(before).one_or_none() or (0, 0)
    forward = update(_heads).where(_heads.c.run_id == run_id, _heads.c.trimmed < upto).values(trimmed=upto)
    session.connection().execute(forward)
    session.connection().execute(delete(_batches).where(_batches.c.run_id == run_id, _batches.c.last <= upto))
    return max(min(upto, last) - trimmed, 0)


def _take(session: Session, run_id: str, count: int) -> int:
    connection = session.connection()
    values = {"run": run_id, "count": count, "now": utcnow()}
    last: int = connection.execute(_advance(connection.dialect.name), values).scalar_one()
    return last - count + 1


@cache
def _advance(dialect: str) -> ReturningInsert[Any]:
    count, now = bindparam("count", type_=_heads.c.last.type), bindparam("now", type_=_heads.c.updated_at.type)
    new = insert_for(dialect, _heads).values(run_id=bindparam("run"), last=count, trimmed=0, updated_at=now)
    changes = {"last": _heads.c.last + count, "updated_at": now}
    upsert = new.on_conflict_do_update(index_elements=["run_id"], set_=changes)
    returning: ReturningInsert[Any] = upsert.returning(_heads.c.last)
    return returning


def _row(batch: Batch) -> dict[str, Any]:
    return {
        "run_id": batch.run_id,
        "last": batch.first + len(batch.events) - 1,
        "first": batch.first,
        "newest_at": max([one.occurred_at for one in batch.events]),
        "events": batch.text,
    }
