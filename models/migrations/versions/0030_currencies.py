"""Currencies of accounts, positions, fills and previews, with the rates and duties of each

Revision ID: 0030
Revises: 0029

Null is the account's own currency, and an account of before is in dollars: no row is rewritten.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_RATE = (("currency", sa.String), ("rate", sa.Float), ("rate_at", sa.DateTime), ("rate_source", sa.String))
_ADDED = {
    "fill": (*_RATE, ("duties", sa.JSON)),
    "preview": (*_RATE, ("duties", sa.JSON)),
    "settlement": _RATE,
    "position": (("currency", sa.String), ("cost_base", sa.Float)),
    "equity_mark": (("rates", sa.JSON),),
}


def upgrade() -> None:
    op.add_column("account", sa.Column("currency", sa.String(), nullable=False, server_default="USD"))
    for table, columns in _ADDED.items():
        for name, kind in columns:
            op.add_column(table, sa.Column(name, kind(), nullable=True))


def downgrade() -> None:
    for table, columns in {**_ADDED, "account": (("currency", sa.String),)}.items():
        with op.batch_alter_table(table) as batch:
            for name, _ in columns:
                batch.drop_column(name)
