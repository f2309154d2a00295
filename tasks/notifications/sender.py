"""The process that sends: it holds the lease, takes notices, and sends the messages of each channel one at a time.

A message is written as being sent before it is sent, and its end after that. So it is sent at least once: twice only
where a process ends, or an answer takes too long, between the two.
"""

from __future__ import annotations

import datetime as dt
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from zoneinfo import ZoneInfo

import structlog
from sqlalchemy import update
from sqlmodel import Session, col, select

from chordesk.models.database.store import AWAY, Store, writes
from chordesk.models.notice_channels import NotificationState
from chordesk.models.settings import Settings, running_desk
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notice, Notification, NotificationSender
from chordesk.tasks import life
from chordesk.tasks.notifications import outbox
from chordesk.tasks.notifications.channels import Answer, Channel
from chordesk.tasks.notifications.messengers import Messenger, Wire
from chordesk.tasks.notifications.outbox import HourLimit, Message
from chordesk.tasks.notifications.wording import Wording

# The lease of the one process that sends, a row of the database. Others wait beside it and take over when it runs
# out.

SENDER_ROW = 1
LEASE_SECONDS = 15.0
LEASE_RENEW_SECONDS = LEASE_SECONDS / 3


class SenderHold(Enum):
    """Whether this process may send: it could before, it can from now on, or another one does."""

    KEPT = "kept"
    TAKEN = "taken"
    OTHERS = "others"


def hold_lease(session: Session, owner: str, now: dt.datetime) -> SenderHold:
    """Take or renew the lease, and keep the row locked until the transaction ends: what it writes is fenced so. A lease
    that ends later than one taken now would is of before the clock was put back, and counts for nothing."""
    row = session.exec(select(NotificationSender).where(NotificationSender.id == SENDER_ROW).with_for_update()).one()
    until = now + dt.timedelta(seconds=LEASE_SECONDS)
    alive = row.lease_until is not None and now <= row.lease_until <= until
    if alive and row.owner != owner:
        return SenderHold.OTHERS
    found = SenderHold.KEPT if row.owner == owner else SenderHold.TAKEN
    row.owner, row.lease_until, row.seen_at = owner, until, now
    session.add(row)
    return found


def holds_lease(session: Session, owner: str, now: dt.datetime) -> bool:
    """Return whether this process has the lease; a transaction that writes keeps the row locked until it ends. It is
    not taken: that is the sender's, which then frees what the last holder left."""
    found = select(NotificationSender).where(NotificationSender.id == SENDER_ROW)
    row = session.exec(found.with_for_update() if writes(session) else found).one()
    until = row.lease_until
    return row.owner == owner and until is not None and now <= until <= now + dt.timedelta(seconds=LEASE_SECONDS)


def release_lease(session: Session, owner: str) -> None:
    session.connection().execute(
        update(NotificationSender)
        .where(col(NotificationSender.id) == SENDER_ROW, col(NotificationSender.owner) == owner)
        .values(owner=None, lease_until=None)
    )


log = structlog.get_logger(__name__)

POLL_SECONDS = 0.5
WINDOW_SECONDS = 30.0  # in which events of one run and kind become one message
PER_HOUR = 30  # messages to each channel; more wait and become one
AWAY_SECONDS = 3.0  # between two attempts at a database that is away
ANSWER_SECONDS = 30.0  # an attempt that takes longer has failed, whatever its far side does later
STOP_SECONDS = 2.0  # for what is on its way when the process is to end
STALLED_SECONDS = 30.0  # it passes at least every few seconds, unless the database is away
LATE_MOST = 3  # attempts of a channel without an end, beside which another one begins

LATE = f"no answer within {ANSWER_SECONDS:g} s"


@dataclass(frozen=True, slots=True)
class _Attempt:
    message: Message
    began: float  # on the monotonic clock


class Sender:
    """Sends until it is to stop. Several may run beside each other, on any hosts: one of them holds the lease."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        wires: Mapping[str, Wire],
        owner: str,
        messengers: Sequence[Messenger] = (),
    ) -> None:
        self._store, self._settings, self._owner = store, settings, owner
        self._own, self._messengers = wires, messengers
        self._wires: Mapping[str, Wire] = wires
        self._noted: dict[str, Channel] | None = None  # the channels as the database has them
        self._limits = HourLimit(PER_HOUR, ZoneInfo(settings.notify_zone))
        self._answers: queue.SimpleQueue[tuple[_Attempt, Answer]] = queue.SimpleQueue()
        self._running: dict[str, _Attempt] = {}  # by channel
        self._late: dict[str, int] = {}  # number of attempts that were given up and still wait, by channel
        self._unwritten: list[tuple[Message, str | None]] = []  # ends of attempts: message and error
        self._held_until = float("-inf")
        self._waits = False
        self._passed: float | None = None  # when the last pass ended, on the monotonic clock

    def run(self, stop: threading.Event) -> None:
        """Send until `stop` is set. A database that is away is waited for."""
        while not stop.is_set():
            pause = POLL_SECONDS
            try:
                self.step()
                self._passed = time.monotonic()
                life.waits("database", None)
            except AWAY as error:
                pause = AWAY_SECONDS
                life.waits("database", "it waits for the database")
                log.warning("notify.database_away", error=str(error).splitlines()[0])
            life.beat()
            stop.wait(pause)
        self._finish()

    def why_not(self) -> str | None:
        if self._passed is None:
            return "it is starting, or waits for the database"
        age = time.monotonic() - self._passed
        if age > STALLED_SECONDS:
            return f"the last pass ended {age:.0f} s ago: it waits for the database"
        return "another process sends, and this one waits for the end of its lease" if self._waits else None

    def step(self) -> None:
        """Record ends, take notices, begin attempts; nothing where another process sends."""
        self._collect()
        with self._store.read() as session:
            wanted = self._unwritten or time.monotonic() > self._held_until or self._has_work(session)
        if not wanted:
            return
        now = utcnow()
        of_people = [wire for one in self._messengers for wire in one.wires()]
        self._wires = {**self._own, **{wire.channel.name: wire for wire in of_people}}
        with self._store.session() as session:
            if not self._hold(session):
                return
            for message, error in self._unwritten:
                self._write(session, message, error)
            outbox.take(session, self._channels, self._wording(), WINDOW_SECONDS, now)
            free = [one for one in self._channels if self._is_free(one.name)]
            begun = [outbox.next_of(session, one, self._limits, self._owner, now) for one in free]
        # Only now, since the transaction may have failed.
        self._unwritten = []
        for one in begun:
            if one is not None:
                self._begin(one)

    def _hold(self, session: Session) -> bool:
        """Return whether this process may send, in a transaction that is fenced by the lease."""
        now = utcnow()
        found = hold_lease(session, self._owner, now)
        self._held_until = time.monotonic() + LEASE_RENEW_SECONDS
        if found is SenderHold.OTHERS:
            if not self._waits:
                log.info("notify.waits", reason="another process sends")
            self._waits = True
            self._unwritten = []  # the other one has these messages by now
            return False
        services = {name: wire.service for name, wire in self._wires.items()}
        channels = {one.name: one for one in self._channels}
        if found is SenderHold.TAKEN:
            outbox.begin(session, self._channels, services, now)
            log.info("notify.sends", channels=sorted(services))
        elif channels != self._noted:
            outbox.note_channels(session, self._channels, services, now)
        self._noted = channels
        self._waits = False
        return True

    @property
    def _channels(self) -> list[Channel]:
        return [one.channel for one in self._wires.values()]

    def holds(self, session: Session) -> bool:
        """Return whether this process is the one that sends, in a transaction that is fenced by it."""
        return holds_lease(session, self._owner, utcnow())

    def _has_work(self, session: Session) -> bool:
        if self._waits:
            return False
        fresh = select(Notice.id).where(col(Notice.taken_at).is_(None)).limit(1)
        free = [one.name for one in self._channels if self._is_free(one.name)]
        waiting = (Notification.state == NotificationState.WAITING, Notification.next_at <= utcnow())
        due = select(Notification.id).where(*waiting, col(Notification.channel).in_(free)).limit(1)
        return session.exec(fresh).first() is not None or session.exec(due).first() is not None

    def _wording(self) -> Wording:
        page = self._settings.notify_page_url
        if page is None:
            found = running_desk.read_api(self._settings.home)
            page = found[0] if found is not None and found[1] else None
        return Wording(self._limits.zone, page)

    def _is_free(self, channel: str) -> bool:
        return channel not in self._running and self._late.get(channel, 0) <= LATE_MOST

    def _begin(self, message: Message) -> None:
        attempt = self._running[message.channel] = _Attempt(message, time.monotonic())
        send: Callable[[str, str], Answer] = self._wires[message.channel].send

        def work() -> None:
            self._answers.put((attempt, send(message.title, message.text)))

        # A daemon: a far side that never ends its answer must not keep the process.
        threading.Thread(target=work, name=f"notify-{message.channel}", daemon=True).start()

    def _collect(self) -> None:
        """Note the answers that have come, and the attempts that took too long."""
        while not self._answers.empty():
            attempt, answer = self._answers.get()
            if self._running.get(attempt.message.channel) is attempt:
                self._end(attempt, None if answer.sent else answer.error or "")
            else:
                self._late[attempt.message.channel] -= 1
        for attempt in list(self._running.values()):
            if time.monotonic() - attempt.began > ANSWER_SECONDS:
                self._late[attempt.message.channel] = self._late.get(attempt.message.channel, 0) + 1
                self._end(attempt, LATE)

    def _end(self, attempt: _Attempt, error: str | None) -> None:
        del self._running[attempt.message.channel]
        self._unwritten.append((attempt.message, error))

    def _write(self, session: Session, message: Message, error: str | None) -> None:
        state = outbox.ended(session, message, self._owner, error, utcnow())
        facts = {"id": message.id, "channel": message.channel, "attempt": message.attempt}
        if state is NotificationState.SENT:
            log.info("notify.sent", **facts)
        elif state is not None:
            log.warning("notify.not_sent", **facts, state=state.value, error=error)

    def _finish(self) -> None:
        until = time.monotonic() + STOP_SECONDS
        while self._running and time.monotonic() < until:
            time.sleep(0.05)
            self._collect()
        try:
            with self._store.session() as session:
                for message, error in self._unwritten:
                    self._write(session, message, error)
                release_lease(session, self._owner)
        except AWAY as error:
            log.warning("notify.database_away", error=str(error).splitlines()[0])
