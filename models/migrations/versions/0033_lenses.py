"""The version of the lens that put a name forward, and the trials of lenses over past sessions

Revision ID: 0033
Revises: 0032

Null is a lens of the desk or of a package: no row is rewritten.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("screen_hit", sa.Column("lens_version", sa.String(), nullable=True))
    op.create_table(
        "lens_trial",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("lens", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("first", sa.Date(), nullable=False),
        sa.Column("last", sa.Date(), nullable=False),
        sa.Column("every", sa.Integer(), nullable=False),
        sa.Column("names", sa.String(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.UniqueConstraint("lens", "version", "market", "first", "last", "every", "names"),
    )


def downgrade() -> None:
    op.drop_table("lens_trial")
    with op.batch_alter_table("screen_hit") as batch:
        batch.drop_column("lens_version")
