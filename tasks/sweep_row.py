"""One sweep at a time: the sweep's row in the database says who sweeps, until when, and what the last one found.

Two beats, or a beat that caught up after a pause, start more sweeps than are wanted; those that find the row taken, or
the last sweep too fresh, do nothing. A sweep whose worker was killed holds the row for a few seconds and no longer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import or_, update
from sqlmodel import Session, col

from models.columns import utcnow
from models.tables import Sweep

SINGLE = 1


@dataclass(frozen=True, slots=True)
class Taken:
    """The right to sweep. redis_mark: what the last sweep found in Redis."""

    redis_mark: str | None


def take(session: Session, owner: str, lease_seconds: float, rest_seconds: float) -> Taken | None:
    """The right to sweep for `lease_seconds`; None while another has it, or when the last sweep ended less than
    `rest_seconds` ago. A time ahead of the clock was written before the clock was put back: it stops nobody."""
    now = utcnow()
    until = now + dt.timedelta(seconds=lease_seconds)
    lease, last = col(Sweep.lease_until), col(Sweep.last_at)
    rested = now - dt.timedelta(seconds=rest_seconds)
    free = or_(lease.is_(None), lease < now, lease > until)
    row = session.connection().execute(
        update(Sweep)
        .where(col(Sweep.id) == SINGLE, free, or_(last.is_(None), last <= rested, last > now))
        .values(owner=owner, lease_until=until)
        .returning(col(Sweep.redis_mark))
    )
    found = row.one_or_none()
    return Taken(found.redis_mark) if found is not None else None


def leave(session: Session, owner: str, found: Mapping[str, int], redis_mark: str | None) -> bool:
    """Give the row back and write down what was found. False when it is another's by now, who will write it."""
    done = session.connection().execute(
        update(Sweep)
        .where(col(Sweep.id) == SINGLE, col(Sweep.owner) == owner)
        .values(owner=None, lease_until=None, last_at=utcnow(), found=dict(found), redis_mark=redis_mark)
    )
    return done.rowcount == 1
