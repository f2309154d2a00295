"""marks of option chains: the desk's own history of implied volatility and volume

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

from chordesk.models.tables.columns import Utc

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "option_mark",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("at_the_money_iv", sa.Float(), nullable=True),
        sa.Column("put_volume", sa.Float(), nullable=True),
        sa.Column("call_volume", sa.Float(), nullable=True),
        sa.Column("put_open_interest", sa.Float(), nullable=True),
        sa.Column("call_open_interest", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("symbol", "day", "source", name=op.f("pk_option_mark")),
    )


def downgrade() -> None:
    op.drop_table("option_mark")
