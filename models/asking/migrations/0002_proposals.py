"""Proposals that a person confirms."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "asking_proposal",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("lines", sa.JSON(), nullable=False),
        sa.Column("cost", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("bound", sa.JSON(), nullable=False),
        sa.Column("shown", sa.String(), nullable=False),
        sa.Column("outside", sa.Boolean(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("expires_at", sa.DateTime(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("decided_by", sa.String()),
        sa.Column("decided_at", sa.DateTime()),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("run_id", sa.String()),
        sa.Column("entry", sa.String()),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_asking_proposal"),
    )
    op.create_index("ix_asking_proposal_state", "asking_proposal", ["state"])
    op.create_index("ix_asking_proposal_entry", "asking_proposal", ["entry"])


def downgrade() -> None:
    op.drop_table("asking_proposal")
