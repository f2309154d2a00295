"""What the database says of the events that somebody follows: how far they are, and whether more can come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session, col, select

from models import event_log
from models.columns import utcnow
from models.event_tables import EventHead
from models.events import DESK, Envelope
from models.states import RUN_FINAL
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


class _Stored:
    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, run_id: str, after: int, limit: int) -> list[Envelope]:
        return read(self._store, run_id, after, limit)


class RunSource(_Stored):
    """One run's events. The desk's own, which belong to no run, are never over."""

    def __init__(self, store: Store, run_id: str) -> None:
        super().__init__(store)
        self._run_id = run_id

    def all(self) -> Heads:
        with self._store.read() as session:
            return Heads({self._run_id: event_log.head(session, self._run_id)[1]}, self._is_over(session))

    moved = all

    def _is_over(self, session: Session) -> bool:
        if self._run_id == DESK:
            return False
        return session.exec(select(Run.state).where(Run.id == self._run_id)).one_or_none() in RUN_FINAL


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
