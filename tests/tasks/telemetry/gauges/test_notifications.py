"""The gauges of notifications by rows of the database."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session

from chordesk.models.notifications import NoticeKind, NotificationState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.notifications import Notification, NotificationChannel
from chordesk.tasks.telemetry.gauges import NOTIFICATION_GAUGES, read_notifications


def ago(seconds: float) -> dt.datetime:
    return utcnow() - dt.timedelta(seconds=seconds)


def message(session: Session, channel: str, state: NotificationState, **values: object) -> None:
    facts = {"kind": NoticeKind.FILL, "run_id": "r", "subject": "IBM", "title": "t", "text": "t", "urgent": False}
    session.add(
        Notification.model_validate({**facts, "next_at": utcnow(), "channel": channel, "state": state, **values})
    )


def values(session: Session) -> dict[str, dict[tuple[str, ...], float]]:
    session.flush()
    return {gauge.name: dict(found) for gauge, found in read_notifications(session).items()}


def test_without_a_channel_there_is_no_value(session: Session) -> None:
    message(session, "gone", NotificationState.WAITING)
    assert values(session) == {gauge.name: {} for gauge in NOTIFICATION_GAUGES}


def test_messages_that_wait_are_late_or_were_given_up_count_by_channel(session: Session) -> None:
    session.add_all([NotificationChannel(name=name, service="JSON") for name in ("mail", "phone", "quiet", "well")])
    message(session, "phone", NotificationState.WAITING, attempts=3, created_at=ago(500), next_at=ago(-300))
    message(session, "phone", NotificationState.SENDING, attempts=1, created_at=ago(40))
    message(session, "phone", NotificationState.GIVEN_UP, attempts=12, created_at=ago(9_000), ended_at=ago(4_000))
    message(session, "phone", NotificationState.GIVEN_UP, attempts=12, ended_at=ago(25 * 3600))
    message(session, "mail", NotificationState.WAITING, created_at=ago(900), next_at=ago(100))
    message(session, "mail", NotificationState.WAITING, created_at=ago(5), next_at=ago(-25))
    message(session, "quiet", NotificationState.WAITING, held="quiet", created_at=ago(9_000), next_at=ago(10))
    message(session, "well", NotificationState.SENT, attempts=1, created_at=ago(9_000), sent_at=ago(9_000))
    found = values(session)
    assert found["desk_notifications_waiting"] == {("mail",): 2, ("phone",): 2, ("quiet",): 1, ("well",): 0}
    assert found["desk_notifications_given_up"] == {("mail",): 0, ("phone",): 1, ("quiet",): 0, ("well",): 0}
    late = found["desk_notifications_late_seconds"]
    assert 500 <= late["phone",] < 800, "one that failed is as late as it is old"
    assert 100 <= late["mail",] < 400, "one that is due is late since then"
    assert (late["quiet",], late["well",]) == (0, 0), "what is held is not late"
