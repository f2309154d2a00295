"""pictures that tools gave to turns

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "artifact",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_artifact_run_id_run")),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_artifact_turn_id_turn")),
        sa.ForeignKeyConstraint(["call_id"], ["tool_call.id"], name=op.f("fk_artifact_call_id_tool_call")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_artifact")),
    )
    with op.batch_alter_table("artifact", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_artifact_run_id"), ["run_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_artifact_turn_id"), ["turn_id"], unique=False)


def downgrade() -> None:
    op.drop_table("artifact")
