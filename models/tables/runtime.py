"""The tables of events, of what runs in model runtimes, kept threads with rollouts, notifications, processes."""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, Column, Index, LargeBinary
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, DeskTable, HumanRequest, Identified, Utc, utcnow


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


class Identity(DeskTable, table=True):
    """The one row: the desk's id, which its Redis and data folders know too, and a hash of the migrations that made the
    tables."""

    __table_args__ = (CheckConstraint("id = 1", name="ck_identity_single"),)

    id: int = Field(default=1, primary_key=True)
    desk: str
    migrations: str
    made_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class Process(DeskTable, table=True):
    """A process of the desk, with the settings that it runs with, secrets only as "set". One that was not seen lately
    has ended."""

    name: str = Field(primary_key=True)
    started_at: dt.datetime = Field(sa_type=Utc)
    seen_at: dt.datetime = Field(sa_type=Utc)
    settings: dict[str, Any] = Field(sa_type=JSON)


class EventBatch(DeskTable, table=True):
    """Events of one run, those with the sequences `first` to `last`: one row each would cost several times as much.

    run_id may be `desk`, which is not a run. newest_at: the time of the newest event. events: a JSON list of them, in
    which sequences are null.
    """

    run_id: str = Field(primary_key=True)
    last: int = Field(primary_key=True, sa_type=BigInteger)
    first: int = Field(sa_type=BigInteger)
    newest_at: dt.datetime = Field(sa_type=Utc)
    events: str


class EventHead(DeskTable, table=True):
    """One row a run: its last sequence, and the last one that was trimmed (0: none). A transaction that adds events
    holds this row until its commit, so that sequences are assigned and seen in one order."""

    run_id: str = Field(primary_key=True)
    last: int = Field(sa_type=BigInteger)
    trimmed: int = Field(default=0, sa_type=BigInteger)
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc, index=True)


class RuntimeConversation(Identified, table=True):
    """A conversation of a run's step. active_turn_id: the running turn, by the runtime's own id."""

    __tablename__ = "conversation"

    run_id: str = Field(index=True)
    step_id: str
    role: str
    subject: str
    runtime_kind: str
    thread_id: str = Field(index=True)
    thread_reason: str
    kept: bool
    worker: str
    active_turn_id: str | None = None
    opened_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    closed_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class Reported(DeskTable):
    """Base of tables of what a runtime reports of a run."""

    run_id: str = Field(index=True)
    status: str
    started_at: dt.datetime = Field(sa_type=Utc)
    ended_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class RuntimeTurn(Reported, table=True):
    """A turn as the runtime reports it, also while it runs. The desk's own record of its outcome is `turn`. phase,
    tokens: of one that takes long, as it was last looked at."""

    thread_id: str = Field(primary_key=True)
    turn_id: str = Field(primary_key=True)
    phase: str | None = None
    tokens: int = 0


class RuntimeItem(Reported, table=True):
    """An item of a turn as the runtime reports it."""

    turn_id: str = Field(primary_key=True)
    item_id: str = Field(primary_key=True)
    thread_id: str
    type: str


class RuntimeApproval(HumanRequest, table=True):
    """A runtime's request to a person: to run a command, change files, gain permissions, or answer a question.

    Its correlation is approval_id when the runtime gave one, else (thread_id, turn_id, item_id). answers: a person's
    answers to questions, by question id. kind: command, file_change, permissions or user_input; interrupt of a graph
    that waits, which has no turn. step_id, attempt: the attempt that asked; empty outside any run.
    """

    run_id: str = Field(index=True)
    step_id: str
    attempt: int
    role: str
    kind: str
    approval_id: str | None = None
    thread_id: str
    turn_id: str
    item_id: str | None = None
    detail: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    answers: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)


class KeptThread(Dated, table=True):
    """A thread that outlives its conversation, and its parent if it was forked. The registry in Redis holds the current
    thread of each (role, subject); this table holds all there ever were.

    One that ran beside a busy one has no rollout: no role continues it. before_turn: the parent's turn, by its runtime
    id, from which the fork differs. worker: the process that started it.
    """

    __tablename__ = "thread"
    __table_args__ = (
        Index("ix_thread_created_at", "created_at"),
        Index("ix_thread_role", "role", "created_at"),
        Index("ix_thread_subject", "subject", "role", "created_at"),
    )

    thread_id: str = Field(primary_key=True)
    role: str
    subject: str
    parent_id: str | None = Field(default=None, index=True)
    before_turn: str | None = None
    mode: str
    model: str
    reason: str
    worker: str


class Rollout(DeskTable, table=True):
    """A kept thread's rollout after one of its turns: the generation that the registry then moves to, and its blob.

    path: relative to the runtime's home, where the runtime looks for it. digest: SHA-256 of the file. size in bytes.
    token: the fencing token of the lease under which it was kept; a copy with an older token never replaces it. record:
    the registry's, JSON, from which a Redis that forgot has it again.
    """

    thread_id: str = Field(primary_key=True)
    generation: int = Field(primary_key=True)
    digest: str = Field(index=True)
    token: int = Field(sa_type=BigInteger)
    path: str
    size: int = Field(sa_type=BigInteger)
    turns: int
    record: str
    created_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc, index=True)


class KeptAnswer(DeskTable, table=True):
    """The answer to a request with an Idempotency-Key. request: a digest of what was asked; status, media_type, body:
    null until it is answered."""

    key: str = Field(primary_key=True)
    request: str
    claimed_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc, index=True)
    status: int | None = None
    media_type: str | None = None
    body: str | None = None


class Blob(Dated, table=True):
    """Compressed bytes under the SHA-256 of the original; stored once for all that use them."""

    digest: str = Field(primary_key=True)
    data: bytes = Field(sa_type=LargeBinary)


class CassettePart(DeskTable, table=True):
    """What all turns of a role have in common: its instructions, its tools and the form of its answer, compressed JSON.
    digest: SHA-256 of it."""

    digest: str = Field(primary_key=True)
    body: bytes = Field(sa_type=LargeBinary)


class CassetteTurn(DeskTable, table=True):
    """A turn that can be played again, of a cassette. Its run and its part may be another desk's, whose file was
    imported: there is no foreign key.

    id: digest of all that its model saw; opened: of what opened it. body: opening, calls and end, compressed JSON.
    """

    __table_args__ = (Index("ix_cassette_turn_role", "role", "subject", "kept_at"),)

    id: str = Field(primary_key=True)
    opened: str = Field(index=True)
    run_id: str = Field(index=True)
    role: str
    subject: str
    runtime: str
    model: str
    kept_at: dt.datetime = Field(sa_type=Utc)
    part: str
    body: bytes = Field(sa_type=LargeBinary)


class MaskedTurn(Identified, table=True):
    """What a model under a mask was shown in one conversation. body: compressed JSON, shown: prompts, tool answers in
    order; scaled: the levels in them, as they were shown."""

    run_id: str = Field(index=True)
    step_id: str
    role: str
    subject: str
    body: bytes = Field(sa_type=LargeBinary)


class RoleSchedule(DeskTable, table=True):
    """The last time a role reviewed a holding, and the figures it saw: the basis for whether it is due again.

    reason: why it was due then. last_at is market time; last_price in account currency; last_unrealized: the position's
    gain as a share of its cost, null where a price or a cost was unknown.
    """

    account: str = Field(primary_key=True)
    market: str = Field(primary_key=True)
    symbol: str = Field(primary_key=True)
    role: str = Field(primary_key=True)
    run_id: str
    report_id: str | None = None
    reason: str
    last_at: dt.datetime = Field(sa_type=Utc)
    last_price: float | None = None
    last_unrealized: float | None = None
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class ScheduleEntry(DeskTable, table=True):
    """An entry of the schedule as a person has set it; it takes the place of the setting of its name. at: a time of a
    session of the exchange (`TIME_RULE`), null for the desk's own; days: as `tasks/schedule_days.py` has them; request:
    the fields of the run's request, null where its kind has none to choose."""

    name: str = Field(primary_key=True)
    kind: str
    at: str
    exchange: str | None = None
    days: str = "sessions"
    request: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    enabled: bool
    by: str
    changed_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class ApiToken(DeskTable, table=True):
    """A named token of a person or program for the service. digest: its SHA-256; scopes: of `tasks.named_tokens`."""

    name: str = Field(primary_key=True)
    digest: str = Field(index=True)
    scopes: list[str] = Field(default_factory=list, sa_type=JSON)
    made_by: str
    made_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    revoked_at: dt.datetime | None = Field(default=None, sa_type=Utc)
