"""order checks: what each rule measured when an order was last checked

Revision ID: 0027
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op

from chordesk.models.tables.columns import Utc

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "order_check",
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("market_at", Utc(), nullable=False),
        sa.Column("answers", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["order.id"], name=op.f("fk_order_check_order_id_order")),
        sa.PrimaryKeyConstraint("order_id", name=op.f("pk_order_check")),
    )


def downgrade() -> None:
    op.drop_table("order_check")
