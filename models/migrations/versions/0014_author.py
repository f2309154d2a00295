"""the author of a report and of a decision

Revision ID: 0014
Revises: 0013
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("report", "decision"):
        op.alter_column(table, "spoken_by", new_column_name="author")


def downgrade() -> None:
    for table in ("report", "decision"):
        op.alter_column(table, "author", new_column_name="spoken_by")
