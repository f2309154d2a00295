"""Alerts, watch lists, what alerts have seen, and their firings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "alerts_watchlist",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("symbols", sa.JSON(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("changed_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_alerts_watchlist"),
    )
    op.create_table(
        "alerts_alert",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("condition", sa.String(), nullable=False),
        sa.Column("written_on", sa.Date(), nullable=False),
        sa.Column("for_minutes", sa.Integer(), nullable=False),
        sa.Column("hours", sa.String(), nullable=False),
        sa.Column("rearm", sa.String(), nullable=False),
        sa.Column("cooldown_minutes", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.DateTime()),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("most_per_day", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("changed_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_alerts_alert"),
    )
    op.create_table(
        "alerts_state",
        sa.Column("alert", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("armed", sa.Boolean(), nullable=False),
        sa.Column("distance", sa.Float(), nullable=False),
        sa.Column("held_at", sa.DateTime()),
        sa.Column("seen", sa.JSON()),
        sa.Column("last_value", sa.Float()),
        sa.Column("last_at", sa.DateTime()),
        sa.Column("reference", sa.Float()),
        sa.Column("fired", sa.Integer(), nullable=False),
        sa.Column("fired_at", sa.DateTime()),
        sa.Column("unknown_since", sa.Date()),
        sa.Column("unknown_why", sa.String()),
        sa.Column("unknown_told", sa.Boolean(), nullable=False),
        sa.Column("looked_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("alert", "symbol", name="pk_alerts_state"),
    )
    op.create_index("ix_alerts_state_looked_at", "alerts_state", ["looked_at"])
    op.create_table(
        "alerts_firing",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("alert", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("slot", sa.String(), nullable=False),
        sa.Column("value", sa.Float()),
        sa.Column("reference", sa.Float()),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("market_at", sa.DateTime(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("run_id", sa.String()),
        sa.Column("note", sa.String()),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alerts_firing"),
        sa.UniqueConstraint("alert", "symbol", "slot", name="uq_alerts_firing_alert_symbol_slot"),
    )
    op.create_index("ix_alerts_firing_state", "alerts_firing", ["state"])
    op.create_table(
        "alerts_pass",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner", sa.String()),
        sa.Column("until", sa.DateTime()),
        sa.Column("ended_at", sa.DateTime()),
        sa.Column("left_until", sa.DateTime()),
        sa.Column("left_why", sa.String()),
        sa.PrimaryKeyConstraint("name", name="pk_alerts_pass"),
    )


def downgrade() -> None:
    for name in ("pass", "firing", "state", "alert", "watchlist"):
        op.drop_table(f"alerts_{name}")
