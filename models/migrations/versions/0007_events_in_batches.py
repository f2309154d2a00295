"""events in batches

Revision ID: 0007
Revises: 0006
"""

import datetime as dt
from collections.abc import Iterator
from itertools import chain
from typing import Any

import orjson
import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

Row = dict[str, Any]

MOST = 20  # events of a batch

EVENT = sa.table(
    "event",
    sa.column("run_id", sa.String()),
    sa.column("sequence", sa.BigInteger()),
    sa.column("event_id", sa.String()),
    sa.column("occurred_at", sa.DateTime()),
    sa.column("domain", sa.String()),
    sa.column("type", sa.String()),
    sa.column("thread_id", sa.String()),
    sa.column("turn_id", sa.String()),
    sa.column("item_id", sa.String()),
    sa.column("approval_id", sa.String()),
    sa.column("payload", sa.JSON()),
)
BATCH = sa.table(
    "event_batch",
    sa.column("run_id", sa.String()),
    sa.column("last", sa.BigInteger()),
    sa.column("first", sa.BigInteger()),
    sa.column("newest_at", sa.DateTime()),
    sa.column("events", sa.String()),
)


def upgrade() -> None:
    op.create_table(
        "event_batch",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("newest_at", sa.DateTime(), nullable=False),
        sa.Column("events", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "last", name=op.f("pk_event_batch")),
    )
    _keep_writers_out("event")
    for some in _partitions(EVENT, EVENT.c.sequence):
        op.bulk_insert(BATCH, list(_batches(some)))
    op.drop_table("event")


def downgrade() -> None:
    op.create_table(
        "event",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("occurred_at", sa.DateTime(), nullable=False),
        sa.Column("domain", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String(), nullable=True),
        sa.Column("turn_id", sa.String(), nullable=True),
        sa.Column("item_id", sa.String(), nullable=True),
        sa.Column("approval_id", sa.String(), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "sequence", name=op.f("pk_event")),
    )
    _keep_writers_out("event_batch")
    for some in _partitions(BATCH, BATCH.c.last):
        op.bulk_insert(EVENT, list(chain.from_iterable(_rows(one) for one in some)))
    op.drop_table("event_batch")


def _keep_writers_out(table: str) -> None:
    """What an older worker added behind what is read would go with the table. SQLite has one writer anyway."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"lock table {table} in exclusive mode")


def _partitions(table: sa.TableClause, place: sa.ColumnElement[int]) -> Iterator[list[Row]]:
    """The rows of a table in order, a thousand at a time."""
    connection, after = op.get_bind(), ("", 0)
    while True:
        later = sa.tuple_(table.c.run_id, place) > sa.tuple_(*after)
        rows = connection.execute(sa.select(table).where(later).order_by(table.c.run_id, place).limit(1000))
        some = [dict(row) for row in rows.mappings()]
        if not some:
            return
        yield some
        after = (some[-1]["run_id"], some[-1][place.name])


def _batches(rows: list[Row]) -> Iterator[Row]:
    """Rows that go on from each other, MOST a batch."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end < len(rows) and end - start < MOST and _goes_on(rows[end - 1], rows[end]):
            continue
        some, start = rows[start:end], end
        yield {
            "run_id": some[0]["run_id"],
            "last": some[-1]["sequence"],
            "first": some[0]["sequence"],
            "newest_at": max(row["occurred_at"] for row in some),
            "events": orjson.dumps([{**row, "sequence": None} for row in some], option=orjson.OPT_NAIVE_UTC).decode(),
        }


def _goes_on(row: Row, following: Row) -> bool:
    return (row["run_id"], row["sequence"] + 1) == (following["run_id"], following["sequence"])


def _rows(batch: Row) -> Iterator[Row]:
    for place, one in enumerate(orjson.loads(batch["events"])):
        at = dt.datetime.fromisoformat(one["occurred_at"]).astimezone(dt.UTC).replace(tzinfo=None)
        yield {**one, "sequence": batch["first"] + place, "occurred_at": at}
