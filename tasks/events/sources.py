"""What the database says of the events that somebody follows: how far they are, and whether more can come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import or_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session, col, select

from models import event_log
from models.columns import utcnow
from models.event_tables import EventHead, RuntimeApproval
from models.events import DESK, Envelope
from models.order_tables import Approval, Order
from models.states import ORDER_OPEN, RUN_FINAL, ApprovalState
from models.store import Store
from models.tables import Run

# A head's time is its writer's clock before the commit: a look goes back by so much behind the look before it.
LOOK_BACK = dt.timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Heads:
    """lasts: the last sequence of each run that may have moved. over: no more will come."""

    lasts: Mapping[str, int]
    over: bool = False


# What a database that is away, or has no connection to spare, raises.
AWAY = (DBAPIError, PoolTimeout)


class Source(Protocol):
    """Asked off the event loop. Its methods raise one of AWAY when the database is away."""

    def all(self) -> Heads:
        """How far everything is."""

    def moved(self) -> Heads:
        """How far that is which may have moved since the last time."""

    def read(self, run_id: str, after: int, limit: int) -> list[Envelope]:
        """As `event_log.read`."""


def read(store: Store, run_id: str, after: int, limit: int) -> list[Envelope]:
    """As `event_log.read`, in a view of its own."""
    with store.read() as session:
        return event_log.read(session, run_id, after, limit)


def is_over(session: Session, run_id: str) -> bool:
    """Whether no more events of a run will come: it has ended, none of its orders is open, and nothing of it waits for
    a person. The desk's own, which belong to no run, are never over."""
    if run_id == DESK:
        return False
    state = session.exec(select(Run.state).where(Run.id == run_id)).one_or_none()
    return state in RUN_FINAL and not _is_awaited(session, run_id)


def _is_awaited(session: Session, run_id: str) -> bool:
    """Asked of runs that have ended, by the indices of their ids."""
    pending = ApprovalState.PENDING.value
    orders = (
        select(Order.id)
        .join(Approval, col(Approval.order_id) == col(Order.id), isouter=True)
        .where(Order.run_id == run_id, or_(col(Order.state).in_(ORDER_OPEN), col(Approval.state) == pending))
    )
    requests = select(RuntimeApproval.id).where(RuntimeApproval.run_id == run_id, RuntimeApproval.state == pending)
    return bool(session.exec(select(or_(orders.exists(), requests.exists()))).one())


class _Stored:
    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, run_id: str, after: int, limit: int) -> list[Envelope]:
        return read(self._store, run_id, after, limit)


class RunSource(_Stored):
    """One run's events."""

    def __init__(self, store: Store, run_id: str) -> None:
        super().__init__(store)
        self._run_id = run_id

    def all(self) -> Heads:
        with self._store.read() as session:
            return Heads({self._run_id: event_log.head(session, self._run_id)[1]}, is_over(session, self._run_id))

    moved = all


class DeskSource(_Stored):
    """The events of all runs, from now on."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._since = dt.datetime.min.replace(tzinfo=dt.UTC)

    def all(self) -> Heads:
        self._since = dt.datetime.min.replace(tzinfo=dt.UTC)
        return self.moved()

    def moved(self) -> Heads:
        now = utcnow()
        with self._store.read() as session:
            rows = session.exec(
                select(EventHead.run_id, EventHead.last).where(col(EventHead.updated_at) >= self._since)
            ).all()
        self._since = now - LOOK_BACK
        return Heads(dict(rows))
