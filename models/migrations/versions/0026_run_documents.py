"""run documents: where the report of each run was written

Revision ID: 0026
Revises: 0025
"""

import sqlalchemy as sa
from alembic import op

from chordesk.models.tables.columns import Utc

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_document_copy",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due_at", Utc(), nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("written_at", Utc(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_run_document_copy_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_document_copy")),
    )
    op.create_index(op.f("ix_run_document_copy_state"), "run_document_copy", ["state"])


def downgrade() -> None:
    op.drop_index(op.f("ix_run_document_copy_state"), "run_document_copy")
    op.drop_table("run_document_copy")
