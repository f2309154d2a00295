"""Intake: notices become parts of messages to each channel that wants their kind, alike ones of one message."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import update
from sqlmodel import Session, col, select

from chordesk.models.notifications.kinds import ALONE, SUMMARY, URGENT, NoticeKind, NotificationState
from chordesk.models.tables.notifications import Notice, Notification, NotificationChannel, NotificationPart
from chordesk.tasks.notifications import wording
from chordesk.tasks.notifications.channels import Channel
from chordesk.tasks.notifications.wording import Wording

MOST = 200  # notices taken in one transaction
# A new channel gets what happened in the last seconds before it: workers begin before the process that sends does.
BEFORE = dt.timedelta(seconds=60)
NOT_SET = "the channel is not set any more"

_Alike = tuple[str, str, str]  # channel, kind and run of messages that become one


def begin(session: Session, channels: Sequence[Channel], services: dict[str, str], now: dt.datetime) -> None:
    """Write the channels of a process that begins to send, free what one before it was sending, and give up what waits
    for a channel that is gone. services: apprise's name of each channel's."""
    known = {row.name: row for row in session.exec(select(NotificationChannel)).all()}
    for one in channels:
        row = known.pop(one.name, None) or NotificationChannel(name=one.name, service="", since=now - BEFORE)
        row.service, row.seen_at = services[one.name], now
        row.kinds, row.quiet = sorted(one.kinds), str(one.quiet) if one.quiet is not None else None
        session.add(row)
    for row in known.values():
        session.delete(row)
    session.flush()
    state, channel = col(Notification.state), col(Notification.channel)
    again = {"state": NotificationState.WAITING, "owner": None, "next_at": now}
    session.connection().execute(update(Notification).where(state == NotificationState.SENDING).values(again))
    gone = channel.not_in([one.name for one in channels])
    over = {"state": NotificationState.GIVEN_UP, "ended_at": now, "error": NOT_SET}
    waiting = state == NotificationState.WAITING
    session.connection().execute(update(Notification).where(waiting, gone).values(over))
    # Quiet hours and the cap may be others now.
    held = col(Notification.held).is_not(None)
    session.connection().execute(update(Notification).where(waiting, held).values(next_at=now))


def take(session: Session, channels: Sequence[Channel], wording_of: Wording, window: float, now: dt.datetime) -> int:
    """Make the oldest notices that are not taken yet parts of messages, and return how many there were. window: seconds
    for which a message waits for more of its run and kind."""
    untaken = select(Notice).where(col(Notice.taken_at).is_(None))
    fresh = session.exec(untaken.order_by(col(Notice.occurred_at), col(Notice.id)).limit(MOST)).all()
    if not fresh:
        return 0
    since = {row.name: row.since for row in session.exec(select(NotificationChannel)).all()}
    open_ones = _open(session)
    for notice in fresh:
        for channel in channels:
            if notice.kind in channel.kinds and notice.occurred_at >= since[channel.name]:
                _add(session, channel, notice, open_ones, wording_of, window, now)
        notice.taken_at = now
        session.add(notice)
    session.flush()
    return len(fresh)


def _open(session: Session) -> dict[_Alike, Notification]:
    """Return the messages that may get more parts: those that no attempt was made to send."""
    waiting = (Notification.state == NotificationState.WAITING, Notification.attempts == 0)
    rows = session.exec(select(Notification).where(*waiting, Notification.kind != SUMMARY)).all()
    return {(row.channel, row.kind, row.run_id): row for row in rows if row.kind not in ALONE}


def _add(
    session: Session,
    channel: Channel,
    notice: Notice,
    open_ones: dict[_Alike, Notification],
    wording_of: Wording,
    window: float,
    now: dt.datetime,
) -> None:
    kind = NoticeKind(notice.kind)
    alike = (channel.name, notice.kind, notice.run_id)
    row = open_ones.get(alike)
    if row is None:
        wait = 0.0 if kind in ALONE else window
        row = Notification(
            channel=channel.name,
            kind=notice.kind,
            run_id=notice.run_id,
            subject=notice.subject,
            title="",
            text="",
            urgent=kind in URGENT,
            state=NotificationState.WAITING,
            next_at=now + dt.timedelta(seconds=wait),
        )
        if kind not in ALONE:
            open_ones[alike] = row
    row.tally = {notice.kind: row.tally.get(notice.kind, 0) + 1}
    if len(row.lines) < wording.LINES:
        row.lines = [*row.lines, wording_of.line(notice)]
    row.title, row.text = wording.title(row.tally), wording.body(row.tally, row.lines, row.kind)
    session.add(row)
    session.add(NotificationPart(channel=channel.name, notice_id=notice.id, notification_id=row.id))
