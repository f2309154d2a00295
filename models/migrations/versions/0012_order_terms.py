"""an order has a time in force, stop prices, and what it protects

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("order", schema=None) as batch_op:
        batch_op.add_column(sa.Column("stop_price", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("trail_percent", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("time_in_force", sa.String(), nullable=False, server_default="day"))
        batch_op.add_column(sa.Column("protects", sa.String(), nullable=True))
        batch_op.create_index(batch_op.f("ix_order_protects"), ["protects"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("order", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_order_protects"))
        batch_op.drop_column("protects")
        batch_op.drop_column("time_in_force")
        batch_op.drop_column("trail_percent")
        batch_op.drop_column("stop_price")
