"""Fills at Interactive Brokers, whose own list goes back to midnight."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "ibkr_fill",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("perm_id", sa.BigInteger(), nullable=False),
        sa.Column("quantity", sa.Float(), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("commission", sa.Float(), nullable=False),
        sa.Column("filled_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_ibkr_fill"),
    )
    op.create_index("ix_ibkr_fill_order_id", "ibkr_fill", ["order_id"])


def downgrade() -> None:
    op.drop_table("ibkr_fill")
