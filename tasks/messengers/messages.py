"""What is written to people: rows of the database, which the process that sends takes in their order.

A message is marked before it is sent and its end after that. Where a process ends between the two, or an answer is
lost, nobody knows whether it arrived: a reply is then not sent again, since two replies look like two acts; a card and
an edit are, since a second one does nothing.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from sqlalchemy import update
from sqlmodel import Session, col, select

from chordesk.models.messengers.tables import MessengersButton, MessengersMessage, MessengersPerson
from chordesk.models.notice_channels import QuietHours, quiet_by_channel
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.messengers.people import digest
from chordesk.tasks.notifications.wording import quoted

LONGEST = 4096  # of one message, in UTF-16 units, as Telegram counts
MOST_PARTS = 3
MORE = "more on the page"
_LONGEST_LINE = 1_000
QUESTION, REPLY, CARD, EDIT, TOAST = "question", "reply", "card", "edit", "toast"
WAITING, SENDING, SENT, GIVEN_UP, CLOSED = "waiting", "sending", "sent", "given_up", "closed"
ASKED = "asked"  # a question that a model answers
ATTEMPTS = 12
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 300.0
LOST = "whether it arrived is not known"
_AGAIN = (CARD, EDIT)  # kinds of which a second one does no harm


@dataclass(frozen=True, slots=True)
class Button:
    """A button of a card: what a press of it does."""

    label: str
    act: str
    target: str
    shown: str


def plain(text: str) -> str:
    """Return a text whose lines hold letters, digits and plain punctuation alone, without account numbers and links."""
    return "\n".join(quoted(line, _LONGEST_LINE) for line in text.splitlines())


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def parts(text: str) -> list[str]:
    """Split a text at the ends of its lines into messages; what is too long is cut, which the last says."""
    found, rest = [""], [piece for line in text.splitlines() for piece in _pieces(line)]
    for line in rest:
        joined = f"{found[-1]}\n{line}" if found[-1] else line
        if units(joined) <= LONGEST - len(MORE) - 1:
            found[-1] = joined
        elif len(found) < MOST_PARTS:
            found.append(line)
        else:
            found[-1] = f"{found[-1]}\n{MORE}"
            break
    return [part for part in found if part.strip()]


def _pieces(line: str) -> Iterable[str]:
    most = (LONGEST - len(MORE) - 1) // 2  # each character has at most two units
    return [line[place : place + most] for place in range(0, len(line), most)] or [""]


def reply(session: Session, person: MessengersPerson, text: str) -> None:
    now = utcnow()
    for place, part in enumerate(parts(text)):
        at = now + dt.timedelta(microseconds=place)
        session.add(_message(person, REPLY, part, at))


def question(session: Session, person: MessengersPerson, text: str) -> None:
    session.add(_message(person, QUESTION, text, utcnow()))


def toast(session: Session, person: MessengersPerson, press: str, text: str) -> None:
    row = _message(person, TOAST, text[:200], utcnow())
    row.remote = press
    session.add(row)


def card(
    session: Session, person: MessengersPerson, text: str, buttons: Sequence[Button], target: str, at: dt.datetime
) -> MessengersMessage:
    """Add a card. at: when it may be sent."""
    row = _message(person, CARD, parts(text)[0], utcnow())
    row.target, row.next_at = target, at
    session.add(row)
    session.flush()
    row.buttons = _made(session, person, row, buttons)
    return row


def edit(
    session: Session, person: MessengersPerson, of: MessengersMessage, text: str, buttons: Sequence[Button]
) -> None:
    row = _message(person, EDIT, parts(text)[0], utcnow())
    row.card, row.target = of.id, of.target
    session.add(row)
    session.flush()
    row.buttons = _made(session, person, of, buttons)


def _message(person: MessengersPerson, kind: str, text: str, at: dt.datetime) -> MessengersMessage:
    return MessengersMessage(person_id=person.id, kind=kind, text=text, state=WAITING, next_at=at, created_at=at)


def _made(
    session: Session, person: MessengersPerson, of: MessengersMessage, buttons: Sequence[Button]
) -> list[list[str]]:
    """Return (label, data); the database keeps the data's digest alone once the message is sent."""
    made = [(one, secrets.token_urlsafe(16)) for one in buttons]
    for one, data in made:
        session.add(
            MessengersButton(
                digest=digest(data), person_id=person.id, message_id=of.id, act=one.act, target=one.target,
                shown=one.shown,
            )
        )  # fmt: skip
    return [[one.label, data] for one, data in made]


def due(session: Session, messenger: str, now: dt.datetime, most: int = 20) -> Sequence[MessengersMessage]:
    """Return messages that may be sent now, the oldest first; of a person's that wait, none before an older one but
    where that is held for later."""
    return session.exec(
        select(MessengersMessage)
        .join(MessengersPerson, col(MessengersPerson.id) == col(MessengersMessage.person_id))
        .where(
            MessengersPerson.messenger == messenger,
            MessengersMessage.state == WAITING,
            MessengersMessage.kind != QUESTION,
            col(MessengersMessage.next_at) <= now,
        )
        .order_by(col(MessengersMessage.created_at), col(MessengersMessage.id))
        .limit(most)
    ).all()


def questions(session: Session, messenger: str, most: int = 5, state: str = WAITING) -> Sequence[MessengersMessage]:
    return session.exec(
        select(MessengersMessage)
        .join(MessengersPerson, col(MessengersPerson.id) == col(MessengersMessage.person_id))
        .where(
            MessengersPerson.messenger == messenger,
            MessengersMessage.state == state,
            MessengersMessage.kind == QUESTION,
        )
        .order_by(col(MessengersMessage.created_at), col(MessengersMessage.id))
        .limit(most)
    ).all()


def begin(session: Session, id_: str) -> bool:
    """Mark a message as being sent; False where it waits no more."""
    marked = session.connection().execute(
        update(MessengersMessage)
        .where(col(MessengersMessage.id) == id_, col(MessengersMessage.state) == WAITING)
        .values(state=SENDING, attempts=MessengersMessage.attempts + 1)
    )
    return bool(marked.rowcount)


def sent(session: Session, id_: str, remote: str | None) -> None:
    row = session.get_one(MessengersMessage, id_, with_for_update=True, populate_existing=True)
    row.state, row.ended_at, row.error, row.buttons = SENT, utcnow(), None, []
    row.remote = remote or row.remote
    session.add(row)


def failed(session: Session, id_: str, error: str, *, again: bool, known: bool, after: float | None = None) -> None:
    """Note a failure. again: another attempt may do better; known: the message surely did not arrive; after: seconds
    until the next attempt that the messenger asked for, which is then no failure of this message."""
    row = session.get_one(MessengersMessage, id_, with_for_update=True, populate_existing=True)
    now, row.error = utcnow(), error
    repeats = again and (known or row.kind in _AGAIN)
    if after is not None:
        row.attempts -= 1
        row.state, row.next_at = WAITING, now + dt.timedelta(seconds=after)
    elif repeats and row.attempts < ATTEMPTS:
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (row.attempts - 1), LONGEST_PAUSE_SECONDS)
        row.state, row.next_at = WAITING, now + dt.timedelta(seconds=pause)
    else:
        row.state, row.ended_at, row.buttons = GIVEN_UP, now, []
    session.add(row)


def free_left(session: Session, messenger: str) -> None:
    """Settle what an earlier process was sending when it ended."""
    of = select(MessengersPerson.id).where(MessengersPerson.messenger == messenger)
    left = select(MessengersMessage.id).where(
        MessengersMessage.state == SENDING, col(MessengersMessage.person_id).in_(of)
    )
    for id_ in session.exec(left).all():
        failed(session, id_, LOST, again=True, known=False)


def zone_of(settings: Settings) -> ZoneInfo:
    return ZoneInfo(settings.notify_zone)


@dataclass(frozen=True, slots=True)
class PersonQuiet:
    """When a person is not to be disturbed: quiet hours, and until the end of a mute."""

    hours: QuietHours | None
    muted_until: dt.datetime | None

    @classmethod
    def of(cls, settings: Settings, person: MessengersPerson) -> PersonQuiet:
        text = person.quiet
        hours = quiet_by_channel(settings.notify_quiet).others if text is None else None
        if text is not None and text != "off":
            hours = QuietHours.parse(text)
        return cls(hours, person.muted_until)

    def until(self, now: dt.datetime, zone: ZoneInfo) -> dt.datetime | None:
        ends = [self.hours.until(now, zone) if self.hours is not None else None]
        ends.append(self.muted_until if self.muted_until is not None and self.muted_until > now else None)
        return max((end for end in ends if end is not None), default=None)

    def __str__(self) -> str:
        return str(self.hours) if self.hours is not None else "off"
