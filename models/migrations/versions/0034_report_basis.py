"""What reports were made from

Revision ID: 0034
Revises: 0033

Reports of before have none, and never count again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "report_basis",
        sa.Column("report_id", sa.String(), sa.ForeignKey("report.id"), primary_key=True),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("question", sa.JSON(), nullable=False),
        sa.Column("calls", sa.LargeBinary(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("report_basis")
