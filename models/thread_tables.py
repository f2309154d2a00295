"""The tables of kept threads: their lineage, the copies of their rollouts, and when a role is due on a holding."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import BigInteger, LargeBinary
from sqlmodel import Field, SQLModel

from models.columns import utc_column, utcnow


class KeptThread(SQLModel, table=True):
    """A thread that outlives its conversation, and what it was forked from. The registry in Redis says which thread a
    (role, subject) has now; this table knows all that ever were.

    One that ran beside a busy one has no rollout: no role goes on in it.
    before_turn: the parent's turn, by its runtime id, from which on the fork differs. worker: who started it.
    """

    __tablename__ = "thread"

    thread_id: str = Field(primary_key=True)
    role: str = Field(index=True)
    subject: str = Field(index=True)
    parent_id: str | None = Field(default=None, index=True)
    before_turn: str | None = None
    mode: str
    model: str
    reason: str
    worker: str
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Rollout(SQLModel, table=True):
    """A kept thread's rollout after a turn of it: the generation that the registry then moves to, and its blob.

    path: relative to the runtime's home, where the runtime looks for it. digest: SHA-256 of the file. size in bytes.
    token: the fencing token of the lease under which it was kept; a copy of an earlier one never takes its place.
    """

    __tablename__ = "rollout"

    thread_id: str = Field(primary_key=True)
    generation: int = Field(primary_key=True)
    digest: str = Field(index=True)
    token: int = Field(sa_type=BigInteger)
    path: str
    size: int = Field(sa_type=BigInteger)
    turns: int
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column(index=True))


class Blob(SQLModel, table=True):
    """Compressed bytes under the SHA-256 of what they were before; stored once whoever needs them."""

    __tablename__ = "blob"

    digest: str = Field(primary_key=True)
    data: bytes = Field(sa_type=LargeBinary)
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class RoleSchedule(SQLModel, table=True):
    """When a role last looked at a holding, and at what figures: what decides whether it is due again.

    reason: why it looked then. last_at is market time; last_price in account currency; last_unrealized: the position's
    gain as a share of its cost, null where a price or a cost was not known.
    """

    __tablename__ = "role_schedule"

    account: str = Field(primary_key=True)
    market: str = Field(primary_key=True)
    symbol: str = Field(primary_key=True)
    role: str = Field(primary_key=True)
    run_id: str
    report_id: str | None = None
    reason: str
    last_at: dt.datetime = Field(sa_column=utc_column())
    last_price: float | None = None
    last_unrealized: float | None = None
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
