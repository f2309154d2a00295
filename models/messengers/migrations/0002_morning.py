"""Updates that are kept before they are acted on, and the hour of a person's morning message."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("messengers_update", sa.Column("given", sa.JSON()))
    op.add_column("messengers_code", sa.Column("morning", sa.String()))
    op.add_column("messengers_person", sa.Column("morning", sa.String()))
    op.add_column("messengers_person", sa.Column("told_at", sa.DateTime()))
