"""backtests: the sessions that a walk has visited

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op

from chordesk.models.tables.columns import Utc

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "backtest_session",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("backtest_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("screen_run_id", sa.String(), nullable=True),
        sa.Column("trade_run_id", sa.String(), nullable=True),
        sa.Column("cash", sa.Float(), nullable=False),
        sa.Column("equity", sa.Float(), nullable=True),
        sa.Column("exposure", sa.Float(), nullable=True),
        sa.Column("traded", sa.Float(), nullable=False),
        sa.Column("orders", sa.JSON(), nullable=False),
        sa.Column("denials", sa.JSON(), nullable=False),
        sa.Column("verdicts", sa.JSON(), nullable=False),
        sa.Column("unpriced", sa.JSON(), nullable=False),
        sa.Column("stale", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["backtest_id"], ["run.id"], name=op.f("fk_backtest_session_backtest_id_run")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_backtest_session_run_id_run")),
        sa.ForeignKeyConstraint(["screen_run_id"], ["run.id"], name=op.f("fk_backtest_session_screen_run_id_run")),
        sa.ForeignKeyConstraint(["trade_run_id"], ["run.id"], name=op.f("fk_backtest_session_trade_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backtest_session")),
        sa.UniqueConstraint("backtest_id", "day", name=op.f("uq_backtest_session_backtest_id_day")),
    )
    op.create_index(op.f("ix_backtest_session_backtest_id"), "backtest_session", ["backtest_id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_backtest_session_backtest_id"), table_name="backtest_session")
    op.drop_table("backtest_session")
