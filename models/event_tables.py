"""The tables of events and of what runs in model runtimes. Nothing rests on them: they may be trimmed."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger
from sqlmodel import Field, SQLModel

from models.columns import json_column, new_id, utc_column, utcnow


class EventBatch(SQLModel, table=True):
    """Events of one run, those with the sequences `first` to `last`: a row each costs several times as much.

    run_id may be `desk`, which is no run. newest_at: when the newest of them occurred. events: a JSON list of them, in
    which sequences are null.
    """

    __tablename__ = "event_batch"

    run_id: str = Field(primary_key=True)
    last: int = Field(primary_key=True, sa_type=BigInteger)
    first: int = Field(sa_type=BigInteger)
    newest_at: dt.datetime = Field(sa_column=utc_column())
    events: str


class EventHead(SQLModel, table=True):
    """One row a run: its last sequence, and the last one that was trimmed away (0: none). Whoever adds events holds
    this row until its commit, so that sequences are given and seen in one order."""

    __tablename__ = "event_head"

    run_id: str = Field(primary_key=True)
    last: int = Field(sa_type=BigInteger)
    trimmed: int = Field(default=0, sa_type=BigInteger)
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column(index=True))


class Conversation(SQLModel, table=True):
    """A thread that a step of a run talked in. active_turn_id: the turn that runs, by the runtime's own id."""

    __tablename__ = "conversation"

    id: str = Field(default_factory=new_id, primary_key=True)
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
    opened_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
    closed_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))


class RuntimeTurn(SQLModel, table=True):
    """A turn as the runtime reports it, while it runs too. The desk's own record of what it came to is `turn`."""

    __tablename__ = "runtime_turn"

    thread_id: str = Field(primary_key=True)
    turn_id: str = Field(primary_key=True)
    run_id: str = Field(index=True)
    status: str
    started_at: dt.datetime = Field(sa_column=utc_column())
    ended_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))


class RuntimeItem(SQLModel, table=True):
    """An item of a turn as the runtime reports it."""

    __tablename__ = "runtime_item"

    turn_id: str = Field(primary_key=True)
    item_id: str = Field(primary_key=True)
    thread_id: str
    run_id: str = Field(index=True)
    type: str
    status: str
    started_at: dt.datetime = Field(sa_column=utc_column())
    ended_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))


class RuntimeApproval(SQLModel, table=True):
    """What a runtime asks a person: to run a command, change files, gain permissions, or answer a question.

    Its correlation is approval_id when the runtime gave one, else (thread_id, turn_id, item_id). answers: a person's
    answers to questions, by question id. kind: command, file_change, permissions or user_input. step_id, attempt: whose
    turn waits for the answer; empty outside any run.
    """

    __tablename__ = "runtime_approval"

    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(index=True)
    step_id: str
    attempt: int
    role: str
    kind: str
    approval_id: str | None = None
    thread_id: str
    turn_id: str
    item_id: str | None = None
    detail: dict[str, Any] = Field(default_factory=dict, sa_column=json_column())
    state: str = Field(index=True)
    asked_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
    expires_at: dt.datetime = Field(sa_column=utc_column())
    decided_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    decided_by: str | None = None
    why: str | None = None
    answers: dict[str, Any] = Field(default_factory=dict, sa_column=json_column())
