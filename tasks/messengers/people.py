"""People of messengers: paired by a code from a terminal, with what each may do, and revoked."""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from collections.abc import Collection, Sequence
from enum import StrEnum

from sqlalchemy import func, update
from sqlmodel import Session, col, select

from chordesk.models.errors import NotFound, UsageError
from chordesk.models.messengers.tables import (
    MessengersCode,
    MessengersMessage,
    MessengersPerson,
    MessengersUpdate,
)
from chordesk.models.notice_channels import QuietHours
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.named_tokens import NAME
from chordesk.tools.orders import audit

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # 32 letters that nobody mistakes for another
LETTERS = 12  # 60 bits, for a code that is in force for minutes
CODE_LIFE = dt.timedelta(minutes=10)
HOUR = dt.timedelta(hours=1)
WRONG_BY_USER, WRONG_BY_ALL = 5, 20  # wrong codes an hour, after which none is looked at
WRONG, ANEW = "wrong_code", "new"  # what an update was


class Scope(StrEnum):
    """What a person may do from a messenger. Each includes reading."""

    READ = "read"
    DECIDE = "decide"  # approve and deny
    HALT = "halt"
    STOP = "stop"  # runs
    START = "start"  # runs, alerts and watch lists, each proposed and confirmed; questions that a model answers


def make_code(
    session: Session,
    settings: Settings,
    messenger: str,
    name: str,
    scopes: Collection[Scope],
    by: str,
    *,
    quiet: str | None = None,
    wake: bool = False,
    morning: str | None = None,
) -> str:
    """Return a code that pairs one chat with a person, once, within CODE_LIFE. Raises UsageError."""
    if not NAME.fullmatch(name) or name != name.strip():
        raise UsageError(f"{name!r} is no name", remedy="use letters, digits, spaces within and . , ' @ + -")
    if quiet is not None and quiet != "off":
        try:
            QuietHours.parse(quiet)
        except ValueError as error:
            raise UsageError(str(error), remedy="such as --quiet 22:00-07:00") from None
    if find(session, messenger, name) is not None:
        raise UsageError(f"{name} is paired already", remedy=f"`desk chat revoke {name!r}` ends that first")
    code = "".join(secrets.choice(ALPHABET) for _ in range(LETTERS))
    session.add(
        MessengersCode(
            digest=digest(code), messenger=messenger, person=name, quiet=quiet, wake=wake,
            morning=morning, made_by=by,
            scopes=sorted({*map(str, scopes), Scope.READ.value}), expires_at=utcnow() + CODE_LIFE,
        )
    )  # fmt: skip
    audit.record(session, settings, "chat_code", person=name, messenger=messenger, scopes=sorted(scopes), by=by)
    return "-".join(code[place : place + 4] for place in range(0, LETTERS, 4))


def digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def plain_code(text: str) -> str:
    return "".join(letter for letter in text.upper() if letter.isalnum())


def pair(
    session: Session, settings: Settings, messenger: str, code: str, user: str, chat: str, *, private: bool
) -> MessengersPerson | None:
    """Pair a chat by a code; None for a wrong one. A code that was shown in a group is used up, and pairs nobody."""
    row = session.get(MessengersCode, digest(plain_code(code)), with_for_update=True, populate_existing=True)
    now = utcnow()
    if row is None or row.messenger != messenger or row.used_at is not None or row.expires_at <= now:
        return None
    row.used_at = now
    session.add(row)
    if not private or find(session, messenger, row.person) is not None:
        return None
    made = MessengersPerson(
        name=row.person, messenger=messenger, user=user, chat=chat, scopes=row.scopes, quiet=row.quiet, wake=row.wake,
        morning=row.morning, made_by=row.made_by,
    )  # fmt: skip
    session.add(made)
    session.flush()
    audit.record(session, settings, "chat_paired", person=made.name, messenger=messenger, scopes=made.scopes)
    return made


def may_try(session: Session, messenger: str, user: str, now: dt.datetime) -> bool:
    """Return whether a code of this user is looked at: after too many wrong ones no code is, also a right one."""
    wrong = (
        MessengersUpdate.messenger == messenger, MessengersUpdate.what == WRONG, col(MessengersUpdate.at) > now - HOUR
    )  # fmt: skip
    count = select(func.count()).select_from(MessengersUpdate)
    by_all = session.exec(count.where(*wrong)).one()
    by_user = session.exec(count.where(*wrong, MessengersUpdate.user == user)).one()
    return by_all < WRONG_BY_ALL and by_user < WRONG_BY_USER


def of_chat(session: Session, messenger: str, user: str, chat: str | None = None) -> MessengersPerson | None:
    """Return the person in force who has a user id, and the chat where one is given."""
    which = [MessengersPerson.messenger == messenger, MessengersPerson.user == user]
    if chat is not None:
        which.append(MessengersPerson.chat == chat)
    return session.exec(select(MessengersPerson).where(*which, col(MessengersPerson.revoked_at).is_(None))).first()


def find(session: Session, messenger: str, name: str) -> MessengersPerson | None:
    which = (MessengersPerson.messenger == messenger, MessengersPerson.name == name)
    return session.exec(select(MessengersPerson).where(*which, col(MessengersPerson.revoked_at).is_(None))).first()


def began_anew(session: Session, person: MessengersPerson) -> dt.datetime | None:
    """Return when a person last began another conversation; None for one who never did."""
    newest = select(func.max(MessengersUpdate.at)).where(
        MessengersUpdate.messenger == person.messenger, MessengersUpdate.user == person.user,
        MessengersUpdate.what == ANEW,
    )  # fmt: skip
    return session.exec(newest).one()


def in_force(session: Session, messenger: str) -> Sequence[MessengersPerson]:
    return session.exec(
        select(MessengersPerson)
        .where(MessengersPerson.messenger == messenger, col(MessengersPerson.revoked_at).is_(None))
        .order_by(col(MessengersPerson.created_at))
    ).all()


def listed(session: Session) -> Sequence[MessengersPerson]:
    return session.exec(select(MessengersPerson).order_by(col(MessengersPerson.created_at))).all()


def pending_codes(session: Session) -> Sequence[MessengersCode]:
    unused = (col(MessengersCode.used_at).is_(None), col(MessengersCode.expires_at) > utcnow())
    return session.exec(select(MessengersCode).where(*unused).order_by(col(MessengersCode.created_at))).all()


def revoke(session: Session, settings: Settings, name: str, by: str) -> int:
    """End the pairings of a name and its codes that were not used; return how many. Raises NotFound for none."""
    now, ended = utcnow(), 0
    for person in session.exec(select(MessengersPerson).where(MessengersPerson.name == name)).all():
        if person.revoked_at is None:
            person.revoked_at, ended = now, ended + 1
            session.add(person)
            drop_waiting(session, person, "the person was revoked", now)
    for code in pending_codes(session):
        if code.person == name:
            code.used_at, ended = now, ended + 1
            session.add(code)
    if not ended:
        raise NotFound(f"nobody of the name {name!r} is paired", remedy="`desk chat list` shows who is")
    audit.record(session, settings, "chat_revoked", person=name, by=by)
    return ended


def drop_waiting(session: Session, person: MessengersPerson, why: str, now: dt.datetime) -> None:
    waiting = (
        col(MessengersMessage.person_id) == person.id,
        col(MessengersMessage.state).in_(("waiting", "sending", "asked")),
    )
    gone = {"state": "given_up", "ended_at": now, "error": why, "buttons": []}
    session.connection().execute(update(MessengersMessage).where(*waiting).values(**gone))


def set_morning(session: Session, name: str, morning: str | None) -> None:
    """Raises NotFound."""
    for person in _named(session, name):
        person.morning = morning
        session.add(person)


def _named(session: Session, name: str) -> list[MessengersPerson]:
    found = [person for person in listed(session) if person.name == name and person.revoked_at is None]
    if not found:
        raise NotFound(f"nobody of the name {name!r} is paired", remedy="`desk chat list` shows who is")
    return found


def mute(session: Session, name: str, until: dt.datetime | None) -> None:
    """Raises NotFound."""
    for person in _named(session, name):
        mute_person(session, person, until)


def mute_person(session: Session, person: MessengersPerson, until: dt.datetime | None) -> None:
    """Hold back what is written to a person; None ends it, and cards that were held back come now."""
    person.muted_until, now = until, utcnow()
    session.add(person)
    if until is None:
        held = (
            col(MessengersMessage.person_id) == person.id, col(MessengersMessage.kind) == "card",
            col(MessengersMessage.state) == "waiting", col(MessengersMessage.next_at) > now,
        )  # fmt: skip
        session.connection().execute(update(MessengersMessage).where(*held).values(next_at=now))
