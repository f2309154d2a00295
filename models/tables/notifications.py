"""The tables of notifications. No other table refers to them: they may be trimmed."""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, DeskTable, Identified, Utc, utcnow


class Notice(Identified, table=True):
    """Something that people may want to know, written in the transaction that makes it so.

    key: each is written once. run_id may be `desk`: not a run. subject: symbol, account, worker or model. facts:
    of the kind. taken_at: when it became a part of the messages to the channels of that moment.
    """

    __table_args__ = (Index("ix_notice_taken", "taken_at", "id"),)

    key: str = Field(unique=True)
    kind: str
    run_id: str
    subject: str = ""
    facts: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    occurred_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    taken_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class Notification(Identified, Dated, table=True):
    """A message to one channel, of one notice or of several that are alike.

    kind: of its notices, or `summary`. tally: number of notices by kind. lines: the first of them as sentences; text:
    what is sent. urgent: it passes through quiet hours and the cap. held: why it waits beyond its window, `quiet` or
    `cap`. next_at: when it is due. owner: the process that sends it. into: the summary that has it. error: of the last
    attempt, without secrets.
    """

    __table_args__ = (
        Index("ix_notification_due", "state", "next_at"),
        Index("ix_notification_sent", "channel", "sent_at"),
    )

    channel: str
    kind: str
    run_id: str
    subject: str
    title: str
    text: str
    tally: dict[str, int] = Field(default_factory=dict, sa_type=JSON)
    lines: list[str] = Field(default_factory=list, sa_type=JSON)
    urgent: bool
    state: str
    held: str | None = None
    attempts: int = 0
    next_at: dt.datetime = Field(sa_type=Utc)
    owner: str | None = None
    sent_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    ended_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    into: str | None = None
    error: str | None = None


class NotificationPart(DeskTable, table=True):
    """A notice in a message: at most once a channel."""

    channel: str = Field(primary_key=True)
    notice_id: str = Field(primary_key=True)
    notification_id: str = Field(index=True)


class NotificationChannel(DeskTable, table=True):
    """A channel as the sender last had it, without its URL. It gets what happened from `since` on.

    service: apprise's name of it. kinds: that it gets. seen_at: when the sender last began with it.
    """

    name: str = Field(primary_key=True)
    service: str
    kinds: list[str] = Field(default_factory=list, sa_type=JSON)
    quiet: str | None = None
    since: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    seen_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class NotificationSender(DeskTable, table=True):
    """The one row of the process that sends: its owner and the end of its lease."""

    __table_args__ = (CheckConstraint("id = 1", name="ck_notification_sender_single"),)

    id: int = Field(default=1, primary_key=True)
    owner: str | None = None
    lease_until: dt.datetime | None = Field(default=None, sa_type=Utc)
    seen_at: dt.datetime | None = Field(default=None, sa_type=Utc)
