"""The record of notifications: what was sent and what was not, and how each channel stands."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.notifications.kinds import NOTIFICATION_OPEN, NotificationState
from chordesk.models.research import Frozen
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.notifications import Notice, Notification, NotificationChannel, NotificationSender

LATELY = dt.timedelta(hours=24)


class Sent(Frozen):
    """One message. next_at: when it is due, of one that waits; count: of its notices."""

    id: str
    channel: str
    kind: str
    run_id: str
    subject: str
    title: str
    text: str
    count: int
    state: str
    held: str | None
    attempts: int
    created_at: dt.datetime
    next_at: dt.datetime
    sent_at: dt.datetime | None
    into: str | None
    error: str | None


class ChannelRow(Frozen):
    """A channel, without its URL. sent, given_up: messages in the last 24 hours; waiting: now. error: of the newest
    attempt that failed, None once a later one did not."""

    name: str
    service: str
    kinds: list[str]
    quiet: str | None
    waiting: int
    sent: int
    given_up: int
    last_sent_at: dt.datetime | None
    error: str | None


class NotificationsState(Frozen):
    """sending: a process holds the lease of those that send. untaken: notices that none has taken yet."""

    sending: bool
    untaken: int
    channels: list[ChannelRow]


def sent(session: Session, most: int, channel: str | None = None) -> list[Sent]:
    """Return the newest messages, the newest first."""
    rows = select(Notification).order_by(col(Notification.created_at).desc(), col(Notification.id).desc())
    found = session.exec((rows if channel is None else rows.where(Notification.channel == channel)).limit(most)).all()
    return [Sent.of(row, count=sum(row.tally.values())) for row in found]


def state(session: Session) -> NotificationsState:
    """Return how notifications stand. Without a channel that was ever sent to, notices are nobody's to take."""
    now = utcnow()
    sender = session.get_one(NotificationSender, 1)
    rows = session.exec(select(NotificationChannel).order_by(col(NotificationChannel.name))).all()
    untaken = session.exec(select(func.count()).where(col(Notice.taken_at).is_(None))).one()
    alive = sender.lease_until is not None and sender.lease_until >= now
    return NotificationsState(sending=alive, untaken=untaken, channels=[_channel(session, row, now) for row in rows])


def _channel(session: Session, row: NotificationChannel, now: dt.datetime) -> ChannelRow:
    own, lately = Notification.channel == row.name, col(Notification.ended_at) > now - LATELY
    counts = dict(
        session.exec(
            select(Notification.state, func.count()).where(own, lately).group_by(col(Notification.state))
        ).all()
    )
    opened = col(Notification.state).in_(NOTIFICATION_OPEN)
    waiting = session.exec(select(func.count()).where(own, opened)).one()
    last = session.exec(select(func.max(Notification.sent_at)).where(own)).one()
    failed = session.exec(
        select(Notification.error)
        .where(own, col(Notification.error).is_not(None), col(Notification.created_at) > (last or row.since))
        .order_by(col(Notification.created_at).desc())
        .limit(1)
    ).first()
    return ChannelRow(
        name=row.name,
        service=row.service,
        kinds=row.kinds,
        quiet=row.quiet,
        waiting=waiting,
        sent=counts.get(NotificationState.SENT, 0),
        given_up=counts.get(NotificationState.GIVEN_UP, 0),
        last_sent_at=last,
        error=failed,
    )
