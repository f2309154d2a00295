"""a report keeps the whole answer

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("report", schema=None) as batch_op:
        batch_op.add_column(sa.Column("answer", sa.JSON(), nullable=True))
        batch_op.add_column(sa.Column("answer_schema", sa.String(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("report", schema=None) as batch_op:
        batch_op.drop_column("answer_schema")
        batch_op.drop_column("answer")
