"""tokens that the provider did not count are missing, and sums of tokens are quick

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "total_tokens")


def upgrade() -> None:
    with op.batch_alter_table("turn", schema=None) as batch_op:
        for name in TOKENS:
            batch_op.alter_column(name, existing_type=sa.Integer(), nullable=True)
        batch_op.drop_index("ix_turn_run_id")
        batch_op.create_index("ix_turn_run_tokens", ["run_id", "total_tokens"], unique=False)
        batch_op.create_index("ix_turn_id_tokens", ["id", "total_tokens"], unique=False)


def downgrade() -> None:
    for name in TOKENS:
        op.execute(f"UPDATE turn SET {name} = 0 WHERE {name} IS NULL")
    with op.batch_alter_table("turn", schema=None) as batch_op:
        batch_op.drop_index("ix_turn_id_tokens")
        batch_op.drop_index("ix_turn_run_tokens")
        batch_op.create_index("ix_turn_run_id", ["run_id"], unique=False)
        for name in TOKENS:
            batch_op.alter_column(name, existing_type=sa.Integer(), nullable=False)
