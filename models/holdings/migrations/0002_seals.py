"""What tells that a snapshot is as it was written."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("holdings_snapshot", sa.Column("seal", sa.String()))


def downgrade() -> None:
    op.drop_column("holdings_snapshot", "seal")
