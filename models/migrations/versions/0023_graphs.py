"""graphs: where each LangGraph graph of a run is

Revision ID: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op

from chordesk.models.tables.columns import Utc

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "graph_checkpoint",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("thread", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("checkpoint_id", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("form", sa.String(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("about_form", sa.String(), nullable=False),
        sa.Column("about", sa.LargeBinary(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("written_at", Utc(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_graph_checkpoint_run_id_run")),
        sa.ForeignKeyConstraint(["step_id"], ["step.id"], name=op.f("fk_graph_checkpoint_step_id_step")),
        sa.PrimaryKeyConstraint("run_id", "thread", "place", name=op.f("pk_graph_checkpoint")),
    )
    op.create_table(
        "graph_write",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("thread", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("task", sa.String(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("checkpoint_id", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("form", sa.String(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_graph_write_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", "thread", "place", "task", "ordinal", name=op.f("pk_graph_write")),
    )


def downgrade() -> None:
    op.drop_table("graph_write")
    op.drop_table("graph_checkpoint")
