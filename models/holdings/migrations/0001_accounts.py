"""Outside accounts, their snapshots and positions, and names of symbols."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "holdings_account",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("number_digest", sa.String()),
        sa.Column("salt", sa.String(), nullable=False),
        sa.Column("home", sa.String()),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_holdings_account"),
    )
    op.create_table(
        "holdings_snapshot",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("summed", sa.Integer()),
        sa.Column("total", sa.String()),
        sa.Column("currency", sa.String()),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_holdings_snapshot"),
        sa.ForeignKeyConstraint(
            ["account"], ["holdings_account.name"], name="fk_holdings_snapshot_account_holdings_account"
        ),
    )
    op.create_index("ix_holdings_snapshot_account", "holdings_snapshot", ["account"])
    op.create_table(
        "holdings_position",
        sa.Column("snapshot_id", sa.String(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("symbol", sa.String()),
        sa.Column("isin", sa.String()),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("quantity", sa.String(), nullable=False),
        sa.Column("price", sa.String()),
        sa.Column("value", sa.String()),
        sa.Column("cost", sa.String()),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("rate", sa.String()),
        sa.PrimaryKeyConstraint("snapshot_id", "line", name="pk_holdings_position"),
        sa.ForeignKeyConstraint(
            ["snapshot_id"], ["holdings_snapshot.id"], name="fk_holdings_position_snapshot_id_holdings_snapshot"
        ),
    )
    op.create_table(
        "holdings_ticker",
        sa.Column("written", sa.String(), nullable=False),
        sa.Column("ticker", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("written", name="pk_holdings_ticker"),
    )


def downgrade() -> None:
    for table in ("holdings_ticker", "holdings_position", "holdings_snapshot", "holdings_account"):
        op.drop_table(table)
