"""The tables of kept threads: their lineage, the copies of their rollouts, and the schedule of roles on holdings."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import BigInteger, LargeBinary
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, DeskTable, Utc, utcnow


class KeptThread(Dated, table=True):
    """A thread that outlives its conversation, and its parent if it was forked. The registry in Redis holds the current
    thread of each (role, subject); this table holds all there ever were.

    One that ran beside a busy one has no rollout: no role continues it. before_turn: the parent's turn, by its runtime
    id, from which the fork differs. worker: the process that started it.
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


class Rollout(DeskTable, table=True):
    """A kept thread's rollout after one of its turns: the generation that the registry then moves to, and its blob.

    path: relative to the runtime's home, where the runtime looks for it. digest: SHA-256 of the file. size in bytes.
    token: the fencing token of the lease under which it was kept; a copy with an older token never replaces it.
    """

    thread_id: str = Field(primary_key=True)
    generation: int = Field(primary_key=True)
    digest: str = Field(index=True)
    token: int = Field(sa_type=BigInteger)
    path: str
    size: int = Field(sa_type=BigInteger)
    turns: int
    created_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc, index=True)


class Blob(Dated, table=True):
    """Compressed bytes under the SHA-256 of the original; stored once for all that use them."""

    digest: str = Field(primary_key=True)
    data: bytes = Field(sa_type=LargeBinary)


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
