"""Sources of events in the database: their last sequences, and whether more can come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import or_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session, col, select

from models.database.store import Store
from models.events import event_log
from models.events.envelope import DESK, Envelope
from models.states import ORDER_OPEN, RUN_FINAL, ApprovalState
from models.tables.columns import utcnow
from models.tables.events import EventHead, RuntimeApproval
from models.tables.orders import Approval, Order
from models.tables.runs import Run

# A head's time is its writer's clock before the commit: each query starts this long before the one before it.
LOOK_BACK = dt.timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Heads:
    """lasts: the last sequence of each run that may have new events. over: no more will come."""

    lasts: Mapping[str, int]
    over: bool = False


# Errors of a database that is away or has no free connection.
AWAY = (DBAPIError, PoolTimeout)


def is_over(session: Session, run_id: str) -> bool:
    """Return whether no more events of a run will come: it has ended, none of its orders is open, and no request of it
    waits for a person. The desk's own events, which belong to no run, are never over."""
    if run_id == DESK:
        return False
    state = session.exec(select(Run.state).where(Run.id == run_id)).one_or_none()
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

    def heads(self) -> Heads:
        now = utcnow()
        with self._store.read() as session:
            rows = session.exec(
                select(EventHead.run_id, EventHead.last).where(col(EventHead.updated_at) >= self._since)
            ).all()
        self._since = now - LOOK_BACK
        return Heads(dict(rows))


Source = RunSource | DeskSource
