"""The gauges of notifications that the database has, by channel: what waits, for how long, and what was given up. Shown
by the processes that send them alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import case, func, or_
from sqlalchemy import select as select_rows
from sqlmodel import Session, col, select

from chordesk.models.notifications.kinds import NOTIFICATION_OPEN, NotificationState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.notifications import Notification, NotificationChannel
from chordesk.tasks.telemetry.gauges.gauge import Gauge, Reading

LATELY = dt.timedelta(hours=24)
WAITING = Gauge(
    "desk_notifications_waiting", "Messages to a channel that are not sent yet, held ones too.", ("channel",)
)
LATE = Gauge(
    "desk_notifications_late_seconds",
    "Age of the oldest message that has failed, or time since one is due, if nothing holds it; 0 without one.",
    ("channel",),
)
GIVEN_UP = Gauge("desk_notifications_given_up", "Messages of the last 24 hours that were given up.", ("channel",))
GAUGES = (WAITING, LATE, GIVEN_UP)


def read_notifications(session: Session) -> Reading:
    """Return the gauges of the channels that the process that sends has. Raises SQLAlchemyError."""
    now = utcnow()
    names = session.exec(select(NotificationChannel.name)).all()
    opened = col(Notification.state).in_(NOTIFICATION_OPEN)
    failed, due = col(Notification.attempts) > 0, col(Notification.next_at) <= now
    since = func.min(case((failed, col(Notification.created_at)), else_=col(Notification.next_at)))
    late = _by_channel(session, since, opened, col(Notification.held).is_(None), or_(failed, due))
    lately = (col(Notification.state) == NotificationState.GIVEN_UP, col(Notification.ended_at) > now - LATELY)
    waiting, given_up = _by_channel(session, func.count(), opened), _by_channel(session, func.count(), *lately)
    return {
        WAITING: {(name,): float(waiting.get(name, 0)) for name in names},
        LATE: {(name,): max((now - late.get(name, now)).total_seconds(), 0.0) for name in names},
        GIVEN_UP: {(name,): float(given_up.get(name, 0)) for name in names},
    }


def _by_channel(session: Session, value: Any, *which: Any) -> dict[str, Any]:
    channel = col(Notification.channel)
    found = session.execute(select_rows(channel, value).where(*which).group_by(channel))
    return {row[0]: row[1] for row in found}
