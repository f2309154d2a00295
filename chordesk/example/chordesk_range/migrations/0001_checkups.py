"""The notes of check-ups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "range_checkup",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("summary", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_range_checkup"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_range_checkup_run_id_run"),
    )
