"""The lease on the sweep, one row of the database: at most one sweep at a time, and when expired leases of steps count.

Two beats, or a beat that caught up after a pause, start more sweeps than are wanted; those that find the row taken, or
the last sweep too recent, do nothing. The sweep of a killed worker holds the row for a few seconds and no longer.

The row also holds whether a lease that has run out means a lost worker. It does not when the sweeps themselves stopped
for a while: the clock leapt, the machine slept, or the database was away. The holders could not renew then, and get
time to do so before anything is taken from them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import or_, update
from sqlmodel import Session, col, select

from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Sweep

SINGLE = 1
# Parts of a lease. Holders renew each third of it: two thirds are left when they have just not yet done so, and within
# half of it all that live have.
RENEWAL = 1 / 3
GRACE = 1 / 2


@dataclass(frozen=True, slots=True)
class SweepClaim:
    """The right to sweep. redis_mark: what the last sweep found in Redis."""

    redis_mark: str | None


def claim_sweep(session: Session, owner: str, lease_seconds: float, rest_seconds: float) -> SweepClaim | None:
    """Take the right to sweep for `lease_seconds`; None while another process has it, or when the last sweep ended less
    than `rest_seconds` ago. A time ahead of the clock was written before the clock was put back, and is ignored."""
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
    return SweepClaim(found.redis_mark) if found is not None else None


@dataclass(frozen=True, slots=True)
class LeaseTrust:
    """Trust in expired leases.

    trusted: a lease that has run out means a lost worker. grace_seconds: time until it does again, set by the check
    that began to doubt. put_back: seconds by which the clock went back.
    """

    trusted: bool
    grace_seconds: float = 0.0
    put_back: float = 0.0


def lease_trust(session: Session, interval_seconds: float, lease_seconds: float) -> LeaseTrust:
    """Compare the clock with that of the last check, and write from when until when expired leases are to be trusted.

    For the transaction that takes steps over: the row is locked before the clock is read, so that minutes of waiting
    for the database count. A check later than an interval and a third of a lease after the last one begins a doubt. As
    long as the interval is at most a third of a lease, as by default, a shorter gap cannot make a living holder's lease
    run out.
    """
    row = session.exec(select(Sweep).where(Sweep.id == SINGLE).with_for_update()).one()
    now = utcnow()
    tolerance = dt.timedelta(seconds=interval_seconds + RENEWAL * lease_seconds)
    grace = dt.timedelta(seconds=GRACE * lease_seconds)
    since = now - (row.trusted_until - tolerance) if row.trusted_until is not None else dt.timedelta()
    back = max(-since.total_seconds(), 0.0)
    put_back = back if back > RENEWAL * lease_seconds else 0.0
    doubt = since > tolerance or put_back > 0
    if doubt:
        row.trusted_from = now + grace
    row.trusted_until = now + tolerance
    session.add(row)
    trusted = row.trusted_from is None or row.trusted_from <= now
    return LeaseTrust(trusted, grace.total_seconds() if doubt else 0.0, put_back)


def release_sweep(session: Session, owner: str, found: Mapping[str, int], redis_mark: str | None) -> bool:
    """Give the row back with what was found; False when another process has it by now."""
    done = session.connection().execute(
        update(Sweep)
        .where(col(Sweep.id) == SINGLE, col(Sweep.owner) == owner)
        .values(owner=None, lease_until=None, last_at=utcnow(), found=dict(found), redis_mark=redis_mark)
    )
    return done.rowcount == 1
