"""The lease of the one process that sends, a row of the database. Others wait beside it and take over when it runs
out."""

from __future__ import annotations

import datetime as dt
from enum import Enum

from sqlalchemy import update
from sqlmodel import Session, col, select

from chordesk.models.tables.notifications import NotificationSender

SINGLE = 1
SECONDS = 15.0
RENEW_SECONDS = SECONDS / 3


class SenderHold(Enum):
    """Whether this process may send: it could before, it can from now on, or another one does."""

    KEPT = "kept"
    TAKEN = "taken"
    OTHERS = "others"


def hold(session: Session, owner: str, now: dt.datetime) -> SenderHold:
    """Take or renew the lease, and keep the row locked until the transaction ends: what it writes is fenced so.

    A lease that ends later than one taken now would is of before the clock was put back, and counts for nothing.
    """
    row = session.exec(select(NotificationSender).where(NotificationSender.id == SINGLE).with_for_update()).one()
    until = now + dt.timedelta(seconds=SECONDS)
    alive = row.lease_until is not None and now <= row.lease_until <= until
    if alive and row.owner != owner:
        return SenderHold.OTHERS
    found = SenderHold.KEPT if row.owner == owner else SenderHold.TAKEN
    row.owner, row.lease_until, row.seen_at = owner, until, now
    session.add(row)
    return found


def release(session: Session, owner: str) -> None:
    """Give the lease back, if it is this process's, so that another one need not wait for its end."""
    session.connection().execute(
        update(NotificationSender)
        .where(col(NotificationSender.id) == SINGLE, col(NotificationSender.owner) == owner)
        .values(owner=None, lease_until=None)
    )
