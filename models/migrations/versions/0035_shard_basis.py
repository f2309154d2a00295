"""What the hits of a screener's turn were made from

Revision ID: 0035
Revises: 0034

Hits of before have none, and never count again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_INDEXES = {
    "ix_shard_basis_digest": ["account", "market", "digest", "market_at"],
    "ix_shard_basis_turn_id": ["turn_id"],
}


def upgrade() -> None:
    op.create_table(
        "shard_basis",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("turn_id", sa.String(), sa.ForeignKey("turn.id"), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("market_at", sa.DateTime(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("question", sa.JSON(), nullable=False),
        sa.Column("calls", sa.LargeBinary(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
    )
    for name, columns in _INDEXES.items():
        op.create_index(name, "shard_basis", columns)


def downgrade() -> None:
    for name in _INDEXES:
        op.drop_index(name, "shard_basis")
    op.drop_table("shard_basis")
