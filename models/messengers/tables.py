"""Tables of messengers: people, what they wrote, and what is written to them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import JSON, BigInteger, Column
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, DeskTable, Identified, Utc


class MessengersBot(DeskTable, table=True):
    """The desk's own user at a messenger. next_update: number of the next update to ask for. polled_at: when all
    updates up to then had been fetched. error: why it does not work now."""

    messenger: str = Field(primary_key=True)
    name: str | None = None
    next_update: int | None = Field(default=None, sa_type=BigInteger)
    polled_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    error: str | None = None
    error_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class MessengersCode(Dated, table=True):
    """A code by which a person pairs a private chat, once. digest: SHA-256 of it, hexadecimal. quiet, wake, morning: as
    of the person."""

    digest: str = Field(primary_key=True)
    messenger: str
    person: str
    scopes: list[str] = Field(sa_type=JSON)
    quiet: str | None = None
    wake: bool = False
    morning: str | None = None
    made_by: str
    expires_at: dt.datetime = Field(sa_type=Utc)
    used_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class MessengersPerson(Identified, Dated, table=True):
    """A person in a private chat. user, chat: the messenger's ids, both of which must match. quiet: HH:MM-HH:MM, None
    for the hours of all channels; wake: orders that would expire pass through them. morning: HH:MM of the morning
    message, with ` daily` where it is not of sessions alone; told_at: when the last one was written. blocked_at: since
    when the messenger says that the person wants nothing."""

    name: str = Field(index=True)
    messenger: str
    user: str
    chat: str
    scopes: list[str] = Field(sa_type=JSON)
    quiet: str | None = None
    wake: bool = False
    morning: str | None = None
    told_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    made_by: str
    muted_until: dt.datetime | None = Field(default=None, sa_type=Utc)
    blocked_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    revoked_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class MessengersUpdate(DeskTable, table=True):
    """An update that was acted on, so that a repeat of it does nothing. what: what it was taken for; received: it was
    kept to be acted on, with all of it in `given`."""

    messenger: str = Field(primary_key=True)
    number: int = Field(primary_key=True, sa_type=BigInteger)
    at: dt.datetime = Field(sa_type=Utc, index=True)
    user: str | None = None
    what: str
    given: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))


class MessengersMessage(Identified, Dated, table=True):
    """What is to be written to a person, in the order of created_at.

    kind: `question` (the person's, to be answered), `reply`, `card`, `edit` (of a card, whose id `card` has), `toast`.
    buttons: rows of (label, data) until it is sent. target: what a card asks about. remote: the messenger's id of the
    message, or of the press that a toast answers. state: waiting, sending, sent, given_up, of a card closed, or of a
    question that a model answers asked; what answers it is then the target.
    """

    person_id: str = Field(foreign_key="messengers_person.id", index=True)
    kind: str
    text: str
    buttons: list[list[str]] = Field(default_factory=list, sa_type=JSON)
    target: str | None = Field(default=None, index=True)
    card: str | None = None
    remote: str | None = None
    state: str = Field(index=True)
    attempts: int = 0
    next_at: dt.datetime = Field(sa_type=Utc)
    ended_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    error: str | None = None


class MessengersButton(Dated, table=True):
    """A button of a card. digest: SHA-256 of its data. act: approve, confirm or deny; target: the approval or request;
    shown: the hash of what the card shows."""

    digest: str = Field(primary_key=True)
    person_id: str = Field(foreign_key="messengers_person.id")
    message_id: str = Field(foreign_key="messengers_message.id")
    act: str
    target: str
    shown: str
    used_at: dt.datetime | None = Field(default=None, sa_type=Utc)
