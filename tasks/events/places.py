"""A reader's place in the events of all runs, as a text that outlives the process that gave it.

There is no order over all runs in the database: one number for the whole desk would make all writers wait for each
other. So a place names the last sequence of each run that moved lately, and a time: whatever else there was then, the
reader has.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.errors import HistoryTrimmed, UsageError
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import EventBatch, EventHead

# How long an event may take from the moment at which it occurs to its commit, with the difference of two hosts' clocks.
SLACK = dt.timedelta(minutes=10)
FORM = r"^[0-9]{1,15}(,[0-9A-Za-z_.-]{1,64}:[0-9]{1,16})*$"
LONGEST = 60_000  # characters: some 1,500 runs that moved within twice the slack
_FORM = re.compile(FORM[1:-1])
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
_LAST = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
_AT_ONCE = 400  # runs in one query: databases bound the number of parameters


@dataclass(frozen=True, slots=True)
class DeskPlace:
    at: dt.datetime  # the reader had everything that was committed then, of the runs that places does not name
    places: Mapping[str, int] = field(default_factory=dict)  # the last sequence that it has, by run

    @property
    def horizon(self) -> dt.datetime:
        """The moment before which a run that is not named had its last event."""
        return self.at - SLACK

    @property
    def is_start(self) -> bool:
        return self.at == _EPOCH

    @classmethod
    def parse(cls, text: str) -> DeskPlace:
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
    """What one reader has."""

    positions: dict[str, int]  # the last sequence it has, by run
    at: dt.datetime  # as of a place
    moved: dict[str, dt.datetime]  # when it got the last event of a run that it must name

    def got(self, run_id: str, sequence: int, now: dt.datetime) -> None:
        self.positions[run_id], self.moved[run_id] = sequence, now

    def caught_up(self, at: dt.datetime) -> None:
        if at <= self.at:
            return
        self.at = at
        rested = [run_id for run_id, moved in self.moved.items() if moved < at - 2 * SLACK]
        for run_id in rested:
            del self.moved[run_id]

    def place(self) -> DeskPlace:
        return DeskPlace(self.at, {run_id: self.positions.get(run_id, 0) for run_id in self.moved})


def progress(session: Session, place: DeskPlace | None) -> ReaderProgress:
    """What a reader has at a place; without one, everything up to now. Raises UsageError, HistoryTrimmed."""
    now = utcnow()
    heads = session.exec(select(EventHead)).all()
    if place is None:
        recent = {head.run_id: head.updated_at for head in heads if head.updated_at >= now - 2 * SLACK}
        return ReaderProgress({head.run_id: head.last for head in heads}, now, recent)
    if place.at > now + SLACK:
        raise UsageError(f"the place {str(place)[:40]!r} is of a later time", remedy="send an id that the stream gave")
    moved = [head for head in heads if head.run_id not in place.places and head.updated_at >= place.horizon]
    return resumed(place, heads, _stored_before(session, place.horizon, moved))


def resumed(place: DeskPlace, heads: Iterable[EventHead], before: Mapping[str, int]) -> ReaderProgress:
    """Return the progress of a reader that goes on from a place. before: of the runs that moved since a place that does
    not name them, the last sequence that was stored before the place's horizon; a run that had none then is left out.
    Raises UsageError for a sequence that a run does not have, HistoryTrimmed rather than leave a gap."""
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


def _stored_before(session: Session, horizon: dt.datetime, heads: Sequence[EventHead]) -> dict[str, int]:
    found: dict[str, int] = {}
    names = [head.run_id for head in heads]
    for start in range(0, len(names), _AT_ONCE):
        some = col(EventBatch.run_id).in_(names[start : start + _AT_ONCE])
        before = select(EventBatch.run_id, func.max(EventBatch.last)).where(some, EventBatch.newest_at < horizon)
        rows = session.exec(before.group_by(EventBatch.run_id)).all()
        found |= {run_id: int(last) for run_id, last in rows}
    return found
