"""analyses: what code concluded of the analysts' reports, and the text around it

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

from chordesk.models.tables.columns import Utc

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "analysis",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("verdict_id", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("strategy", sa.String(), nullable=False),
        sa.Column("recommendation", sa.String(), nullable=False),
        sa.Column("rating", sa.String(), nullable=False),
        sa.Column("confidence", sa.String(), nullable=False),
        sa.Column("contract", sa.String(), nullable=True),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.Column("checks", sa.JSON(), nullable=False),
        sa.Column("reasons", sa.JSON(), nullable=False),
        sa.Column("key_risks", sa.JSON(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=True),
        sa.Column("headline", sa.String(), nullable=True),
        sa.Column("summary", sa.String(), nullable=True),
        sa.Column("author", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_analysis_run_id_run")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_analysis_candidate_id_candidate")),
        sa.ForeignKeyConstraint(["verdict_id"], ["verdict.id"], name=op.f("fk_analysis_verdict_id_verdict")),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_analysis_turn_id_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_analysis")),
        sa.UniqueConstraint("run_id", "symbol", name=op.f("uq_analysis_run_id_symbol")),
    )
    op.create_index(op.f("ix_analysis_run_id"), "analysis", ["run_id"])
    op.create_index(op.f("ix_analysis_verdict_id"), "analysis", ["verdict_id"])


def downgrade() -> None:
    op.drop_table("analysis")
