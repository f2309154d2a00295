"""an order has legs, and one that only reduces needs no verdict

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_BEFORE = "verdict_id is not null or state in ('drafted', 'denied') or action = 'close'"
_NOW = "verdict_id is not null or state in ('drafted', 'denied') or action in ('close', 'reduce')"


def upgrade() -> None:
    with op.batch_alter_table("order", schema=None) as batch_op:
        batch_op.add_column(sa.Column("legs", sa.JSON(), nullable=True))
        batch_op.drop_constraint(op.f("ck_order_verdict"), type_="check")
        batch_op.create_check_constraint(op.f("ck_order_verdict"), _NOW)


def downgrade() -> None:
    # At the broker without a verdict there was only what closes; a reduction is counted as that.
    op.execute(
        "UPDATE \"order\" SET action = 'close' "
        "WHERE action = 'reduce' AND verdict_id IS NULL AND state NOT IN ('drafted', 'denied')"
    )
    with op.batch_alter_table("order", schema=None) as batch_op:
        batch_op.drop_constraint(op.f("ck_order_verdict"), type_="check")
        batch_op.create_check_constraint(op.f("ck_order_verdict"), _BEFORE)
        batch_op.drop_column("legs")
