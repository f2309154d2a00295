"""Messages: notices become parts of one for each channel that wants them; which is sent next, what becomes of it, and
the record of all."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from sqlalchemy import func, update
from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.events import DESK
from chordesk.models.notice_channels import ALONE, NOTIFICATION_OPEN, SUMMARY, URGENT, NoticeKind, NotificationState
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import (
    Notice,
    Notification,
    NotificationChannel,
    NotificationPart,
    NotificationSender,
)
from chordesk.tasks.notifications import wording
from chordesk.tasks.notifications.channels import Channel
from chordesk.tasks.notifications.wording import Wording

MOST = 200  # notices taken in one transaction
# A new channel gets what happened in the last seconds before it: workers begin before the process that sends does.
BEFORE = dt.timedelta(seconds=60)
NOT_SET = "the channel is not set any more"

_Alike = tuple[str, str, str]  # channel, kind and run of messages that become one


def begin(session: Session, channels: Sequence[Channel], services: dict[str, str], now: dt.datetime) -> None:
    """Free what an earlier process was sending, and note the channels."""
    again = {"state": NotificationState.WAITING, "owner": None, "next_at": now}
    sending = col(Notification.state) == NotificationState.SENDING
    session.connection().execute(update(Notification).where(sending).values(again))
    note_channels(session, channels, services, now)


def note_channels(session: Session, channels: Sequence[Channel], services: dict[str, str], now: dt.datetime) -> None:
    """Note the channels that there are now, and give up what waits for one that is gone. services: their names for
    people."""
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
    gone = channel.not_in([one.name for one in channels])
    over = {"state": NotificationState.GIVEN_UP, "ended_at": now, "error": NOT_SET}
    waiting = state == NotificationState.WAITING
    session.connection().execute(update(Notification).where(waiting, gone).values(over))
    # Quiet hours and the cap may be others now.
    held = col(Notification.held).is_not(None)
    session.connection().execute(update(Notification).where(waiting, held).values(next_at=now))


def take(session: Session, channels: Sequence[Channel], wording_of: Wording, window: float, now: dt.datetime) -> int:
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
    """Messages that may get more parts: no attempt was made to send them."""
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


# Dispatch: which message a channel sends next, and what becomes of it.
#
# Quiet hours and a full hour hold messages back. What they held becomes one message, a summary, when they end.

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
    """The message's state; None when another process has it by now. error: None when it was sent."""
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


LATELY = dt.timedelta(hours=24)


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


def sent(session: Session, most: int, channel: str | None = None) -> Sequence[Notification]:
    rows = select(Notification).order_by(col(Notification.created_at).desc(), col(Notification.id).desc())
    return session.exec((rows if channel is None else rows.where(Notification.channel == channel)).limit(most)).all()


def state(session: Session) -> NotificationsState:
    """Return how notifications stand. Without a channel that was ever sent to, notices are nobody's to take."""
    now = utcnow()
    sender = session.get_one(NotificationSender, 1)
    rows = session.exec(select(NotificationChannel).order_by(col(NotificationChannel.name))).all()
    untaken = session.exec(select(func.count()).where(col(Notice.taken_at).is_(None))).one()
    alive = sender.lease_until is not None and sender.lease_until >= now
    return NotificationsState(sending=alive, untaken=untaken, channels=[_channel(session, row, now) for row in rows])


def part_of_status(session: Session, settings: Settings) -> NotificationsState:
    """Return how each channel stands."""
    return state(session)


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
    return ChannelRow.of(
        row,
        waiting=waiting,
        sent=counts.get(NotificationState.SENT, 0),
        given_up=counts.get(NotificationState.GIVEN_UP, 0),
        last_sent_at=last,
        error=failed,
    )
