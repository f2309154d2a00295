"""Dispatch: which message a channel sends next, and what becomes of it.

Quiet hours and a full hour hold messages back. What they held becomes one message, a summary, when they end.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from sqlalchemy import update
from sqlmodel import Session, col, select

from chordesk.models.events.envelope import DESK
from chordesk.models.notifications.kinds import ALONE, SUMMARY, NotificationState
from chordesk.models.tables.notifications import Notification
from chordesk.tasks.notifications import wording
from chordesk.tasks.notifications.channels import Channel

HOUR = dt.timedelta(hours=1)
ATTEMPTS = 12  # with the pauses between them, a little more than an hour
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 900.0
QUIET, CAP = "quiet", "cap"
_AT_ONCE = 500  # messages looked at; more of them wait for the next pass


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is being sent. attempt: 1 and so on."""

    id: str
    channel: str
    title: str
    text: str
    attempt: int


@dataclass(frozen=True, slots=True)
class HourLimit:
    """What holds messages back beside a channel's own quiet hours."""

    per_hour: int
    zone: ZoneInfo


def next_of(session: Session, channel: Channel, limits: HourLimit, owner: str, now: dt.datetime) -> Message | None:
    """Return the channel's next message, marked as being sent by this process; None when there is none now."""
    due = _due(session, channel.name, now)
    if not due:
        return None
    if due[0].urgent:
        return _start(session, due[0], owner)
    if (until := channel.quiet.until(now, limits.zone) if channel.quiet is not None else None) is not None:
        _hold(session, due, QUIET, until)
        return None
    if (until := _full_until(session, channel.name, limits.per_hour, now)) is not None:
        _hold(session, due, CAP, until)
        return None
    held = [one for one in due if one.held is not None]
    return _start(session, _summary(session, held, now) if len(held) > 1 else due[0], owner)


def ended(
    session: Session, message: Message, owner: str, error: str | None, now: dt.datetime
) -> NotificationState | None:
    """Write what became of an attempt, and return the message's state; None when another process has it by now. error:
    why it was not sent, None when it was."""
    held = (col(Notification.id) == message.id, col(Notification.owner) == owner)
    sending = col(Notification.state) == NotificationState.SENDING
    row = session.exec(select(Notification).where(*held, sending).with_for_update()).first()
    if row is None:
        return None
    row.owner, row.error = None, error
    if error is None:
        row.state, row.sent_at, row.ended_at = NotificationState.SENT, now, now
    elif row.attempts >= ATTEMPTS and row.kind not in ALONE:
        row.state, row.ended_at = NotificationState.GIVEN_UP, now
    else:
        row.state, row.next_at = NotificationState.WAITING, now + pause(row.attempts)
    session.add(row)
    return NotificationState(row.state)


def pause(attempts: int) -> dt.timedelta:
    """Return the pause after so many failed attempts: it doubles up to a bound."""
    seconds = FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 20)
    return dt.timedelta(seconds=min(seconds, LONGEST_PAUSE_SECONDS))


def _due(session: Session, channel: str, now: dt.datetime) -> Sequence[Notification]:
    return session.exec(
        select(Notification)
        .where(
            Notification.channel == channel,
            Notification.state == NotificationState.WAITING,
            Notification.next_at <= now,
        )
        .order_by(col(Notification.urgent).desc(), col(Notification.created_at), col(Notification.id))
        .limit(_AT_ONCE)
    ).all()


def _full_until(session: Session, channel: str, per_hour: int, now: dt.datetime) -> dt.datetime | None:
    """Return when the hour has room for one more message to a channel; None when it has now."""
    times = session.exec(
        select(Notification.sent_at)
        .where(
            Notification.channel == channel,
            Notification.state == NotificationState.SENT,
            col(Notification.urgent).is_(False),
            col(Notification.sent_at) > now - HOUR,
        )
        .order_by(col(Notification.sent_at).desc())
        .limit(per_hour)
    ).all()
    first = times[-1] if len(times) == per_hour else None
    return first + HOUR if first is not None else None


def _hold(session: Session, rows: Sequence[Notification], why: str, until: dt.datetime) -> None:
    for row in rows:
        row.held, row.next_at = why, until
        session.add(row)


def _summary(session: Session, rows: Sequence[Notification], now: dt.datetime) -> Notification:
    """Return a new message in place of these."""
    tally: Counter[str] = Counter()
    for row in rows:
        tally.update(row.tally)
    lines = [line for row in rows for line in row.lines][: wording.LINES]
    made = Notification(
        channel=rows[0].channel,
        kind=SUMMARY,
        run_id=DESK,
        subject="",
        title=wording.title(tally),
        text=wording.body(tally, lines, SUMMARY),
        tally=dict(tally),
        lines=lines,
        urgent=False,
        state=NotificationState.WAITING,
        next_at=now,
    )
    session.add(made)
    session.flush()
    merged = {"state": NotificationState.MERGED, "into": made.id, "ended_at": now}
    which = col(Notification.id).in_([row.id for row in rows])
    session.connection().execute(update(Notification).where(which).values(merged))
    return made


def _start(session: Session, row: Notification, owner: str) -> Message:
    row.state, row.owner, row.attempts, row.held = NotificationState.SENDING, owner, row.attempts + 1, None
    session.add(row)
    return Message(row.id, row.channel, row.title, row.text, row.attempts)
