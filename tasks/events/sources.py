"""Sources of events in the database, and a reader's place in them as a text that outlives the process that gave it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, or_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session, col, select

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import HistoryTrimmed, UsageError
from chordesk.models.events import DESK, Envelope
from chordesk.models.states import ORDER_OPEN, RUN_FINAL, ApprovalState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import EventBatch, EventHead, RuntimeApproval

# A place in the events of all runs: what a reader has of each, in a text that outlives the process that gave it.
#
# There is no order over all runs in the database: a number for the whole desk would make all writers wait for each
# other. So a place names the last sequence of each run that moved lately, and a time: whatever else there was then, it
# has.

# How long an event may take from the moment at which it occurs to its commit, with the difference of two hosts' clocks.
SLACK = dt.timedelta(minutes=10)
FORM = r"^[0-9]{1,15}(,[0-9A-Za-z_.-]{1,64}:[0-9]{1,16})*$"
LONGEST = 60_000  # characters: some 1,500 runs that moved within twice the slack
_FORM = re.compile(FORM[1:-1])
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
_LAST = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class DeskPlace:
    """at: the reader had everything that was committed then, of the runs that places does not name. places: the last
    sequence that it has, by run."""

    at: dt.datetime
    places: Mapping[str, int] = field(default_factory=dict)

    @property
    def horizon(self) -> dt.datetime:
        """Return the moment before which a run that is not named had its last event."""
        return self.at - SLACK

    @property
    def is_start(self) -> bool:
        """Return whether this is before every event."""
        return self.at == _EPOCH

    @classmethod
    def parse(cls, text: str) -> DeskPlace:
        """Return the place of a text; `0` is before every event. Raises UsageError."""
        if len(text) > LONGEST or _FORM.fullmatch(text) is None:
            raise UsageError(f"{text[:40]!r} is no place in the events", remedy="send an id that the stream gave, or 0")
        moment, *named = text.split(",")
        at = _EPOCH + dt.timedelta(milliseconds=int(moment))
        pairs = (one.split(":") for one in named)
        return cls(min(at, _LAST), {run_id: int(last) for run_id, last in pairs})

    def __str__(self) -> str:
        moment = str((self.at - _EPOCH) // dt.timedelta(milliseconds=1))
        return ",".join((moment, *(f"{run_id}:{last}" for run_id, last in self.places.items())))


@dataclass(slots=True)
class ReaderProgress:
    """What one reader has. positions: the last sequence it has, by run, kept by whatever reads on; at: as of a place;
    moved: when it got the last event of a run that it must name."""

    positions: dict[str, int]
    at: dt.datetime
    moved: dict[str, dt.datetime]

    def got(self, run_id: str, now: dt.datetime) -> None:
        """Note that the reader has one more event of a run."""
        self.moved[run_id] = now

    def caught_up(self, at: dt.datetime) -> None:
        """Note that the reader has all that was committed at this time; runs that rested long before need no naming."""
        if at <= self.at:
            return
        self.at = at
        rested = [run_id for run_id, moved in self.moved.items() if moved < at - 2 * SLACK]
        for run_id in rested:
            del self.moved[run_id]

    def place(self) -> DeskPlace:
        return DeskPlace(self.at, {run_id: self.positions.get(run_id, 0) for run_id in self.moved})


@dataclass(frozen=True, slots=True)
class Head:
    """A run's last sequence, the last one that was trimmed, and when it last moved."""

    run_id: str
    last: int
    trimmed: int
    updated_at: dt.datetime


def from_now_on(heads: Iterable[Head], now: dt.datetime) -> ReaderProgress:
    """Return the progress of a reader that has everything up to now."""
    heads = list(heads)
    recent = {head.run_id: head.updated_at for head in heads if head.updated_at >= now - 2 * SLACK}
    return ReaderProgress({head.run_id: head.last for head in heads}, now, recent)


def unknown(place: DeskPlace, heads: Iterable[Head]) -> list[Head]:
    """Return the heads that moved since a place that does not name them."""
    return [head for head in heads if head.run_id not in place.places and head.updated_at >= place.horizon]


def resumed(place: DeskPlace, heads: Iterable[Head], before: Mapping[str, int]) -> ReaderProgress:
    """Return the progress of a reader that goes on from a place.

    before: of the runs that `unknown` returns, the last sequence that was stored before the place's horizon; a run that
    had none then is left out. Raises UsageError for a sequence that a run does not have, HistoryTrimmed rather than
    leave a gap.
    """
    positions = {}
    for head in heads:
        named = place.places.get(head.run_id)
        if named is not None and named > head.last:
            reason = f"run {head.run_id} has events 1 to {head.last}: {named} is none of them"
            raise UsageError(reason, remedy="0 is before the first")
        if named is None and head.updated_at < place.horizon:
            positions[head.run_id] = head.last
            continue
        after = before.get(head.run_id, 0) if named is None else named
        if after < head.trimmed and not place.is_start:
            raise HistoryTrimmed(head.run_id, after, head.trimmed, head.last)
        positions[head.run_id] = max(after, head.trimmed)
    return ReaderProgress(positions, place.at, {run_id: place.at for run_id in place.places if run_id in positions})


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
