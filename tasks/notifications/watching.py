"""Metrics and health of the process that sends notifications."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import case, func, or_
from sqlalchemy import select as select_rows
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.notice_channels import NOTIFICATION_OPEN, NotificationState
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notification, NotificationChannel
from chordesk.tasks.notifications.sender import Sender
from chordesk.tasks.telemetry.emit import Telemetry
from chordesk.tasks.telemetry.gauges import Exporter, Gauge, Reading
from chordesk.tasks.telemetry.process_watch import ProcessWatch

# The gauges of notifications that the database has, by channel: what waits, for how long, and what was given up. Shown
# by the processes that send them alone.

LATELY = dt.timedelta(hours=24)
NOTIFICATIONS_WAITING = Gauge("desk_notifications_waiting", "Unsent messages, held ones too.", ("channel",))
NOTIFICATIONS_LATE = Gauge(
    "desk_notifications_late_seconds",
    "Time that the oldest message is late; 0 without one.",
    ("channel",),
)
NOTIFICATIONS_GIVEN_UP = Gauge("desk_notifications_given_up", "Messages given up in the last 24 hours.", ("channel",))
NOTIFICATION_GAUGES = (NOTIFICATIONS_WAITING, NOTIFICATIONS_LATE, NOTIFICATIONS_GIVEN_UP)


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
        NOTIFICATIONS_WAITING: {(name,): float(waiting.get(name, 0)) for name in names},
        NOTIFICATIONS_LATE: {(name,): max((now - late.get(name, now)).total_seconds(), 0.0) for name in names},
        NOTIFICATIONS_GIVEN_UP: {(name,): float(given_up.get(name, 0)) for name in names},
    }


def _by_channel(session: Session, value: Any, *which: Any) -> dict[str, Any]:
    channel = col(Notification.channel)
    found = session.execute(select_rows(channel, value).where(*which).group_by(channel))
    return {row[0]: row[1] for row in found}


ROLE = "notify"


@contextmanager
def watched(settings: Settings, store: Store, sender: Sender, owner: str, stop: threading.Event) -> Iterator[None]:
    """Serve them while the block runs. owner: this process's name; stop: set once it is to end. Raises SettingError
    when the address cannot be had."""

    def read() -> Reading:
        with store.read() as session:
            return read_notifications(session)

    telemetry = Telemetry(settings, lambda: owner)
    watch = ProcessWatch(ROLE, settings.metrics_port, lambda: telemetry, dict)
    watch.add(Exporter({"database": read}).collect)
    watch.health.stops_by(stop.is_set)
    watch.health.ready_by(sender.why_not)
    watch.serve(ROLE)
    try:
        yield
    finally:
        watch.close()
        telemetry.close()
