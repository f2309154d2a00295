"""a candidate that no lens put forward has no confidence

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("candidate", schema=None) as batch_op:
        batch_op.alter_column("confidence", existing_type=sa.String(), nullable=True)


def downgrade() -> None:
    op.execute("UPDATE candidate SET confidence = 'speculative' WHERE confidence IS NULL")
    with op.batch_alter_table("candidate", schema=None) as batch_op:
        batch_op.alter_column("confidence", existing_type=sa.String(), nullable=False)
