"""attempts, the sweep's row, and when a step was last claimed

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("step", sa.Column("claimed_at", sa.DateTime(), nullable=True))
    _attempt()
    _sweep()


def downgrade() -> None:
    op.drop_table("sweep")
    with op.batch_alter_table("attempt", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_attempt_step_id"))
    op.drop_table("attempt")
    with op.batch_alter_table("step", schema=None) as batch_op:
        batch_op.drop_column("claimed_at")


def _attempt() -> None:
    op.create_table(
        "attempt",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["step_id"], ["step.id"], name=op.f("fk_attempt_step_id_step")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
    )
    with op.batch_alter_table("attempt", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_attempt_step_id"), ["step_id"], unique=False)


def _sweep() -> None:
    table = op.create_table(
        "sweep",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("lease_until", sa.DateTime(), nullable=True),
        sa.Column("last_at", sa.DateTime(), nullable=True),
        sa.Column("found", sa.JSON(), nullable=False),
        sa.Column("redis_mark", sa.String(), nullable=True),
        sa.Column("trusted_from", sa.DateTime(), nullable=True),
        sa.Column("trusted_until", sa.DateTime(), nullable=True),
        sa.CheckConstraint("id = 1", name="ck_sweep_single"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweep")),
    )
    # The row is there from the start: who sweeps takes it by an update, and never has to make it first.
    op.bulk_insert(table, [{"id": 1, "found": {}}])
