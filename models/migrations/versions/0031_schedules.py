"""The exchange of an entry of the schedule

Revision ID: 0031
Revises: 0030

Null is the exchange of the desk, as it was for every entry.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("schedule_entry", sa.Column("exchange", sa.String(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("schedule_entry") as batch:
        batch.drop_column("exchange")
