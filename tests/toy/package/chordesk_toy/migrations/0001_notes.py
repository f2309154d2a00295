"""The notes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "toy_note",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String()),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_toy_note"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_toy_note_run_id_run"),
    )
    op.create_index("ix_toy_note_run_id", "toy_note", ["run_id"])


def downgrade() -> None:
    op.drop_table("toy_note")
