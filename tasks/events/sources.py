"""Sources of events in the database: their last sequences, and whether more can come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, or_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.events import event_log
from chordesk.models.events.envelope import DESK, Envelope
from chordesk.models.states import ORDER_OPEN, RUN_FINAL, ApprovalState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.events import EventBatch, EventHead, RuntimeApproval
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.events.cursor import SLACK, DeskPlace, Head, ReaderProgress, from_now_on, resumed, unknown

# A head's time is its writer's clock before the commit: each query starts this long before the one before it.
LOOK_BACK = SLACK
_AT_ONCE = 400  # runs in one query: databases bound the number of parameters


@dataclass(frozen=True, slots=True)
class Heads:
    """lasts: the last sequence of each run that may have new events. over: no more will come."""

    lasts: Mapping[str, int]
    over: bool = False


# Errors of a database that is away or has no free connection.
AWAY = (DBAPIError, PoolTimeout)


def is_over(session: Session, run_id: str) -> bool:
    """Return whether no more events of a run will come: it has ended, none of its orders is open, and no request of it
    waits for a person; or it was deleted. The desk's own events, which belong to no run, are never over."""
    if run_id == DESK:
        return False
    state = session.exec(select(Run.state).where(Run.id == run_id)).one_or_none()
    if state is None:
        return True
    return state in RUN_FINAL and not _has_open_work(session, run_id)


def _has_open_work(session: Session, run_id: str) -> bool:
    """Return whether a run that has ended has open orders or requests."""
    pending = ApprovalState.PENDING.value
    orders = (
        select(Order.id)
        .join(Approval, col(Approval.order_id) == col(Order.id), isouter=True)
        .where(Order.run_id == run_id, or_(col(Order.state).in_(ORDER_OPEN), col(Approval.state) == pending))
    )
    requests = select(RuntimeApproval.id).where(RuntimeApproval.run_id == run_id, RuntimeApproval.state == pending)
    return bool(session.exec(select(or_(orders.exists(), requests.exists()))).one())


class StoredEvents:
    """Queries of the database, made off the event loop. They raise one of AWAY when it is away.

    `heads` of a source returns the heads that may have moved since the last call; with the first, all.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, run_id: str, after: int, limit: int) -> list[Envelope]:
        """Read as `event_log.read` does."""
        with self._store.read() as session:
            return event_log.read(session, run_id, after, limit)


def _stored_before(session: Session, place: DeskPlace, heads: Sequence[Head]) -> dict[str, int]:
    """Return the last sequence of these runs before the horizon of a place; none of a run that had none then."""
    found: dict[str, int] = {}
    names = [head.run_id for head in heads]
    for start in range(0, len(names), _AT_ONCE):
        some = col(EventBatch.run_id).in_(names[start : start + _AT_ONCE])
        rows = session.exec(
            select(EventBatch.run_id, func.max(EventBatch.last))
            .where(some, EventBatch.newest_at < place.horizon)
            .group_by(EventBatch.run_id)
        ).all()
        found |= {run_id: int(last) for run_id, last in rows}
    return found


class RunSource(StoredEvents):
    """Events of one run."""

    def __init__(self, store: Store, run_id: str) -> None:
        super().__init__(store)
        self._run_id = run_id

    def heads(self) -> Heads:
        with self._store.read() as session:
            return Heads({self._run_id: event_log.head(session, self._run_id)[1]}, is_over(session, self._run_id))


class DeskSource(StoredEvents):
    """Events of all runs, from now on."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._since = dt.datetime.min.replace(tzinfo=dt.UTC)

    def progress(self, place: DeskPlace | None) -> ReaderProgress:
        """Return what a reader of all runs has at a place, without one everything up to now. Raises UsageError for a
        place that is of another desk, HistoryTrimmed."""
        now = utcnow()
        with self._store.read() as session:
            columns = (EventHead.run_id, EventHead.last, EventHead.trimmed, EventHead.updated_at)
            heads = [Head(*row) for row in session.exec(select(*columns)).all()]
            if place is None:
                return from_now_on(heads, now)
            if place.at > now + SLACK:
                reason = f"the place {str(place)[:40]!r} is of a later time"
                raise UsageError(reason, remedy="send an id that the stream gave")
            return resumed(place, heads, _stored_before(session, place, unknown(place, heads)))

    def heads(self) -> Heads:
        now = utcnow()
        with self._store.read() as session:
            rows = session.exec(
                select(EventHead.run_id, EventHead.last).where(col(EventHead.updated_at) >= self._since)
            ).all()
        self._since = now - LOOK_BACK
        return Heads(dict(rows))


Source = RunSource | DeskSource
