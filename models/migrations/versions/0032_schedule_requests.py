"""Days and requests of the schedule's entries

Revision ID: 0032
Revises: 0031

An entry of before starts on each session, and takes no fields: no row is rewritten.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("schedule_entry", sa.Column("days", sa.String(), nullable=False, server_default="sessions"))
    op.add_column("schedule_entry", sa.Column("request", sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("schedule_entry") as batch:
        batch.drop_column("request")
        batch.drop_column("days")
