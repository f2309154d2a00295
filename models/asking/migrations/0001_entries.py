"""Questions to the desk, and their answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "asking_entry",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("dialogue", sa.String(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("question", sa.String(), nullable=False),
        sa.Column("intent", sa.String(), nullable=False),
        sa.Column("run_id", sa.String()),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("sources", sa.JSON(), nullable=False),
        sa.Column("missing", sa.JSON(), nullable=False),
        sa.Column("grounding", sa.JSON()),
        sa.Column("reason", sa.String()),
        sa.Column("ended_at", sa.DateTime()),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_asking_entry"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_asking_entry_run_id_run"),
    )
    for name in ("dialogue", "run_id"):
        op.create_index(f"ix_asking_entry_{name}", "asking_entry", [name])


def downgrade() -> None:
    op.drop_table("asking_entry")
