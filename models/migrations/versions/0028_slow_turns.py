"""slow turns: what one does while it runs, and how its schema and tools were put to a server

Revision ID: 0028
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("turn", sa.Column("way", sa.String(), nullable=True))
    op.add_column("runtime_turn", sa.Column("phase", sa.String(), nullable=True))
    op.add_column("runtime_turn", sa.Column("tokens", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("runtime_turn", "tokens")
    op.drop_column("runtime_turn", "phase")
    op.drop_column("turn", "way")
