"""The tables. Times are UTC without offset in the database; `Utc` columns give them back timezone-aware.

Lineage: order -> preview -> decision -> verdict -> reports -> turn -> thread, and candidate -> screen hits -> turn.
The foreign keys of that chain are never null, and nothing cascades: what something rests on cannot be deleted.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Column, DateTime, Index, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel

# Constraints have names everywhere, so that a later migration can find them; SQLite gives none by itself.
SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Utc(TypeDecorator[dt.datetime]):
    """A timezone-aware moment, stored in UTC; a naive one is refused."""

    impl = DateTime(timezone=False)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive time {value!r}: give it a timezone")
        return value.astimezone(dt.UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any, dialect: Dialect) -> dt.datetime | None:
        return value.replace(tzinfo=dt.UTC) if value is not None else None


def utcnow() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def new_id() -> str:
    """A random id, sortable by time of creation to the millisecond, 32 hex digits."""
    millis = int(utcnow().timestamp() * 1000)
    return f"{millis:012x}{uuid.uuid4().hex[:20]}"


def _utc(*, nullable: bool = False, index: bool = False) -> Any:
    return Column(Utc(), nullable=nullable, index=index)


def _json() -> Any:
    return Column(JSON, nullable=False)


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
    market_now: dt.datetime = Field(sa_column=_utc())
    params: dict[str, Any] = Field(default_factory=dict, sa_column=_json())
    notes: list[str] = Field(default_factory=list, sa_column=_json())
    summary: dict[str, Any] = Field(default_factory=dict, sa_column=_json())
    schedule: str | None = None
    slot: str | None = None
    parent_run_id: str | None = Field(default=None, foreign_key="run.id")
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc(index=True))
    deadline_at: dt.datetime = Field(sa_column=_utc())
    finished_at: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))


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
    lease_until: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))
    due_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())
    sent_at: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))
    sends: int = 0
    payload: dict[str, Any] = Field(default_factory=dict, sa_column=_json())
    result: dict[str, Any] = Field(default_factory=dict, sa_column=_json())
    error: str | None = None
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())
    started_at: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))
    claimed_at: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))
    finished_at: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))


class Attempt(SQLModel, table=True):
    """One attempt at a step that has ended: who made it, how long it took, how it ended and why.

    Written by the transaction that ends it; that of a lost worker by whoever takes the step over or fails it.
    """

    __tablename__ = "attempt"

    id: str = Field(default_factory=new_id, primary_key=True)
    step_id: str = Field(foreign_key="step.id", index=True)
    attempt: int
    owner: str
    started_at: dt.datetime = Field(sa_column=_utc())
    ended_at: dt.datetime = Field(sa_column=_utc())
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
    lease_until: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))
    last_at: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))
    found: dict[str, int] = Field(default_factory=dict, sa_column=_json())
    redis_mark: str | None = None
    trusted_from: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))
    trusted_until: dt.datetime | None = Field(default=None, sa_column=_utc(nullable=True))


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
    started_at: dt.datetime = Field(sa_column=_utc())
    finished_at: dt.datetime = Field(sa_column=_utc())


class ToolCall(SQLModel, table=True):
    """One tool call of a turn, with what it was asked and what it answered (cut at a bound)."""

    __tablename__ = "tool_call"

    id: str = Field(default_factory=new_id, primary_key=True)
    turn_id: str = Field(foreign_key="turn.id", index=True)
    ordinal: int
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict, sa_column=_json())
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
    key_risks: list[str] = Field(default_factory=list, sa_column=_json())
    reason: str | None = None
    spoken_by: str
    market_at: dt.datetime = Field(sa_column=_utc())
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())


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
    key_risks: list[str] = Field(default_factory=list, sa_column=_json())
    completed: list[str] = Field(default_factory=list, sa_column=_json())
    missing: list[str] = Field(default_factory=list, sa_column=_json())
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())


class VerdictReport(SQLModel, table=True):
    """Which reports a verdict rests on."""

    __tablename__ = "verdict_report"

    verdict_id: str = Field(foreign_key="verdict.id", primary_key=True)
    report_id: str = Field(foreign_key="report.id", primary_key=True)


class Decision(SQLModel, table=True):
    """The trader's recommended actions of a run."""

    __tablename__ = "decision"
    __table_args__ = (UniqueConstraint("run_id"),)

    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id")
    step_id: str = Field(foreign_key="step.id")
    turn_id: str = Field(foreign_key="turn.id")
    account: str
    status: str
    actions: list[dict[str, Any]] = Field(default_factory=list, sa_column=_json())
    reasoning: str = ""
    spoken_by: str
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())


class Order(SQLModel, table=True):
    """One action on its way from drafted intent to fill. id = uuid5 of decision and ordinal, also the client order id.

    verdict_id is null only on a denied row (an action on a symbol without a verdict of its run).
    """

    __tablename__ = "order"
    __table_args__ = (
        UniqueConstraint("decision_id", "ordinal"),
        CheckConstraint("verdict_id is not null or state in ('drafted', 'denied')", name="ck_order_verdict"),
    )

    id: str = Field(primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    decision_id: str = Field(foreign_key="decision.id")
    verdict_id: str | None = Field(default=None, foreign_key="verdict.id")
    ordinal: int
    account: str = Field(index=True)
    symbol: str = Field(index=True)
    action: str
    side: str | None = None
    quantity: float | None = None
    notional: float | None = None
    order_type: str | None = None
    limit_price: float | None = None
    state: str
    denial_code: str | None = None
    denial_reason: str | None = None
    measured: str | None = None
    limit_text: str | None = None
    broker_order_id: str | None = None
    message: str | None = None
    market_at: dt.datetime = Field(sa_column=_utc())
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())


class Preview(SQLModel, table=True):
    """The canonical form of an order as it would be sent, and its SHA-256."""

    __tablename__ = "preview"

    id: str = Field(default_factory=new_id, primary_key=True)
    order_id: str = Field(foreign_key="order.id", unique=True)
    payload: str
    payload_hash: str = Field(index=True)
    price: float
    priced_at: dt.datetime = Field(sa_column=_utc())
    notional: float
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())


class Fill(SQLModel, table=True):
    """Shares that changed hands; filled_at is market time."""

    __tablename__ = "fill"

    id: str = Field(default_factory=new_id, primary_key=True)
    order_id: str = Field(foreign_key="order.id", index=True)
    account: str = Field(index=True)
    symbol: str
    side: str
    quantity: float
    price: float
    commission: float
    filled_at: dt.datetime = Field(sa_column=_utc())
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())


class Account(SQLModel, table=True):
    """The ledger's head: paper and live never share a row."""

    __tablename__ = "account"

    name: str = Field(primary_key=True)
    cash: float
    opened_at: dt.datetime = Field(default_factory=utcnow, sa_column=_utc())


class Position(SQLModel, table=True):
    """Shares held; quantity is negative when short, and the row goes when it is zero."""

    __tablename__ = "position"

    account: str = Field(primary_key=True, foreign_key="account.name")
    symbol: str = Field(primary_key=True)
    quantity: float
    average_cost: float
    filled_at: dt.datetime = Field(sa_column=_utc())
