"""notifications: what people may want to know, the messages to each channel, and the one process that sends

Revision ID: 0025
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op

from chordesk.models.tables.columns import Utc

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _notice()
    _notification()
    op.create_table(
        "notification_channel",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("service", sa.String(), nullable=False),
        sa.Column("kinds", sa.JSON(), nullable=False),
        sa.Column("quiet", sa.String(), nullable=True),
        sa.Column("since", Utc(), nullable=False),
        sa.Column("seen_at", Utc(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_notification_channel")),
    )
    sender = op.create_table(
        "notification_sender",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("lease_until", Utc(), nullable=True),
        sa.Column("seen_at", Utc(), nullable=True),
        sa.CheckConstraint("id = 1", name="ck_notification_sender_single"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_sender")),
    )
    # The row is there from the start: a process that sends takes it by an update, and never has to make it first.
    op.bulk_insert(sender, [{"id": 1}])


def _notice() -> None:
    op.create_table(
        "notice",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("occurred_at", Utc(), nullable=False),
        sa.Column("taken_at", Utc(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notice")),
        sa.UniqueConstraint("key", name=op.f("uq_notice_key")),
    )
    op.create_index("ix_notice_taken", "notice", ["taken_at", "id"])


def _notification() -> None:
    op.create_table(
        "notification",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("tally", sa.JSON(), nullable=False),
        sa.Column("lines", sa.JSON(), nullable=False),
        sa.Column("urgent", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("held", sa.String(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", Utc(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("sent_at", Utc(), nullable=True),
        sa.Column("ended_at", Utc(), nullable=True),
        sa.Column("into", sa.String(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification")),
    )
    op.create_index("ix_notification_due", "notification", ["state", "next_at"])
    op.create_index("ix_notification_sent", "notification", ["channel", "sent_at"])
    op.create_table(
        "notification_part",
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("notice_id", sa.String(), nullable=False),
        sa.Column("notification_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("channel", "notice_id", name=op.f("pk_notification_part")),
    )
    op.create_index("ix_notification_part_notification_id", "notification_part", ["notification_id"])


def downgrade() -> None:
    for table in ("notification_sender", "notification_channel", "notification_part", "notification", "notice"):
        op.drop_table(table)
