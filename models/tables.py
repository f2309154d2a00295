"""The tables. Times are UTC without offset in the database; `Utc` columns give them back timezone-aware.

Lineage: order -> preview -> decision -> verdict -> reports -> turn -> thread, and candidate -> screen hits -> turn.
The foreign keys of that chain are never null, and nothing cascades: what something rests on cannot be deleted.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import CheckConstraint, Index, UniqueConstraint
from sqlmodel import Field, SQLModel

from models.columns import json_column, new_id, utc_column, utcnow


class Run(SQLModel, table=True):
    """One execution of a workflow."""

    __tablename__ = "run"
    __table_args__ = (UniqueConstraint("schedule", "slot"),)

    id: str = Field(default_factory=new_id, primary_key=True)
    kind: str
    state: str = Field(index=True)
    account: str
    provider: str
    model: str
    market: str
    market_now: dt.datetime = Field(sa_column=utc_column())
    params: dict[str, Any] = Field(default_factory=dict, sa_column=json_column())
    notes: list[str] = Field(default_factory=list, sa_column=json_column())
    summary: dict[str, Any] = Field(default_factory=dict, sa_column=json_column())
    schedule: str | None = None
    slot: str | None = None
    parent_run_id: str | None = Field(default=None, foreign_key="run.id")
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column(index=True))
    deadline_at: dt.datetime = Field(sa_column=utc_column())
    finished_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))


class Step(SQLModel, table=True):
    """One task's worth of a run: who holds it, until when, and what waits for it.

    pending counts the children that are not final; the transaction that takes it to 0 makes the step ready.
    """

    __tablename__ = "step"
    __table_args__ = (
        UniqueConstraint("run_id", "kind", "subject", "role"),
        Index("ix_step_due", "state", "due_at"),
        CheckConstraint("pending >= 0", name="ck_step_pending"),
    )

    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    parent_id: str | None = Field(default=None, foreign_key="step.id", index=True)
    kind: str
    subject: str = ""
    role: str = ""
    state: str
    pending: int = 0
    attempt: int = 0
    max_attempts: int = 3
    owner: str | None = None
    lease_until: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    due_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
    sent_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    sends: int = 0
    payload: dict[str, Any] = Field(default_factory=dict, sa_column=json_column())
    result: dict[str, Any] = Field(default_factory=dict, sa_column=json_column())
    error: str | None = None
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
    started_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    claimed_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    finished_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))


class Attempt(SQLModel, table=True):
    """One attempt at a step that has ended: who made it, how long it took, how it ended and why.

    Written by the transaction that ends it; that of a lost worker by whoever takes the step over or fails it.
    """

    __tablename__ = "attempt"

    id: str = Field(default_factory=new_id, primary_key=True)
    step_id: str = Field(foreign_key="step.id", index=True)
    attempt: int
    owner: str
    started_at: dt.datetime = Field(sa_column=utc_column())
    ended_at: dt.datetime = Field(sa_column=utc_column())
    outcome: str
    reason: str | None = None


class Sweep(SQLModel, table=True):
    """The sweep's one row: who sweeps, until when nobody else may, when the last one ended and what it found.

    redis_mark is what the sweep left in Redis; another one there, or none, means that its messages are gone.
    A step's lease that has run out means a lost worker only between trusted_from and trusted_until (null: no bound).
    """

    __tablename__ = "sweep"
    __table_args__ = (CheckConstraint("id = 1", name="ck_sweep_single"),)

    id: int = Field(default=1, primary_key=True)
    owner: str | None = None
    lease_until: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    last_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    found: dict[str, int] = Field(default_factory=dict, sa_column=json_column())
    redis_mark: str | None = None
    trusted_from: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    trusted_until: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))


class Turn(SQLModel, table=True):
    """One turn on one thread. thread_id and codex_turn_id are the app-server's own ids."""

    __tablename__ = "turn"

    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    step_id: str = Field(foreign_key="step.id", index=True)
    attempt: int
    ordinal: int
    role: str
    subject: str
    thread_id: str | None = Field(default=None, index=True)
    thread_reason: str | None = None
    codex_turn_id: str | None = None
    kept: bool
    provider: str
    model: str
    status: str
    outcome: str
    failure_kind: str | None = None
    text: str = ""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    total_tokens: int = 0
    started_at: dt.datetime = Field(sa_column=utc_column())
    finished_at: dt.datetime = Field(sa_column=utc_column())


class ToolCall(SQLModel, table=True):
    """One tool call of a turn, with what it was asked and what it answered (cut at a bound)."""

    __tablename__ = "tool_call"

    id: str = Field(default_factory=new_id, primary_key=True)
    turn_id: str = Field(foreign_key="turn.id", index=True)
    ordinal: int
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict, sa_column=json_column())
    output: str
    success: bool
    has_data: bool
    seconds: float


class ScreenHit(SQLModel, table=True):
    """A symbol that one lens put forward."""

    __tablename__ = "screen_hit"
    __table_args__ = (UniqueConstraint("step_id", "symbol"),)

    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    step_id: str = Field(foreign_key="step.id")
    turn_id: str = Field(foreign_key="turn.id")
    lens: str
    symbol: str
    instrument: str
    confidence: str
    thesis: str


class Candidate(SQLModel, table=True):
    """A symbol under research in a run. origin: screen, manual (a person named it) or position (held already)."""

    __tablename__ = "candidate"
    __table_args__ = (UniqueConstraint("run_id", "symbol"),)

    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    symbol: str
    instrument: str
    confidence: str
    origin: str
    rank: int
    score: float


class CandidateHit(SQLModel, table=True):
    """Which screen hits a candidate rests on."""

    __tablename__ = "candidate_hit"

    candidate_id: str = Field(foreign_key="candidate.id", primary_key=True)
    hit_id: str = Field(foreign_key="screen_hit.id", primary_key=True)


class Report(SQLModel, table=True):
    """One role's structured answer on one candidate; verdict and confidence only when completed."""

    __tablename__ = "report"
    __table_args__ = (UniqueConstraint("run_id", "symbol", "role"),)

    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    step_id: str = Field(foreign_key="step.id")
    candidate_id: str = Field(foreign_key="candidate.id", index=True)
    turn_id: str = Field(foreign_key="turn.id")
    symbol: str = Field(index=True)
    role: str
    status: str
    verdict: str | None = None
    confidence: str | None = None
    summary: str = ""
    key_risks: list[str] = Field(default_factory=list, sa_column=json_column())
    reason: str | None = None
    spoken_by: str
    market_at: dt.datetime = Field(sa_column=utc_column())
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Verdict(SQLModel, table=True):
    """The reduced reports of one candidate."""

    __tablename__ = "verdict"
    __table_args__ = (UniqueConstraint("run_id", "symbol"),)

    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    candidate_id: str = Field(foreign_key="candidate.id")
    symbol: str
    rating: str
    confidence: str
    summary: str
    key_risks: list[str] = Field(default_factory=list, sa_column=json_column())
    completed: list[str] = Field(default_factory=list, sa_column=json_column())
    missing: list[str] = Field(default_factory=list, sa_column=json_column())
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class VerdictReport(SQLModel, table=True):
    """Which reports a verdict rests on."""

    __tablename__ = "verdict_report"

    verdict_id: str = Field(foreign_key="verdict.id", primary_key=True)
    report_id: str = Field(foreign_key="report.id", primary_key=True)


class Decision(SQLModel, table=True):
    """The trader's recommended actions of a run. turn_id is null when a person decided.

    processed_at: when its orders were drafted, and the decision put on record.
    """

    __tablename__ = "decision"
    __table_args__ = (UniqueConstraint("run_id"),)

    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id")
    step_id: str = Field(foreign_key="step.id")
    turn_id: str | None = Field(default=None, foreign_key="turn.id")
    account: str
    status: str
    actions: list[dict[str, Any]] = Field(default_factory=list, sa_column=json_column())
    reasoning: str = ""
    spoken_by: str
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
    processed_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
