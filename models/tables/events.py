"""The tables of events and of what runs in model runtimes. No other table refers to them: they may be trimmed."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import JSON, BigInteger
from sqlmodel import Field

from chordesk.models.tables.columns import DeskTable, HumanRequest, Identified, Utc, utcnow


class EventBatch(DeskTable, table=True):
    """Events of one run, those with the sequences `first` to `last`: one row each would cost several times as much.

    run_id may be `desk`, which is no run. newest_at: the time of the newest event. events: a JSON list of them, in
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


class RuntimeTurn(DeskTable, table=True):
    """A turn as the runtime reports it, also while it runs. The desk's own record of its outcome is `turn`. phase,
    tokens: of one that takes long, as it was last looked at."""

    thread_id: str = Field(primary_key=True)
    turn_id: str = Field(primary_key=True)
    run_id: str = Field(index=True)
    status: str
    phase: str | None = None
    tokens: int = 0
    started_at: dt.datetime = Field(sa_type=Utc)
    ended_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class RuntimeItem(DeskTable, table=True):
    """An item of a turn as the runtime reports it."""

    turn_id: str = Field(primary_key=True)
    item_id: str = Field(primary_key=True)
    thread_id: str
    run_id: str = Field(index=True)
    type: str
    status: str
    started_at: dt.datetime = Field(sa_type=Utc)
    ended_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class RuntimeApproval(HumanRequest, table=True):
    """A runtime's request to a person: to run a command, change files, gain permissions, or answer a question.

    Its correlation is approval_id when the runtime gave one, else (thread_id, turn_id, item_id). answers: a person's
    answers to questions, by question id. kind: command, file_change, permissions or user_input. step_id, attempt: the
    attempt with the turn that waits for the answer; empty outside any run.
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
