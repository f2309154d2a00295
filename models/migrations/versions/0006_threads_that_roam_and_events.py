"""threads that roam and events

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_blob()
    _create_conversation()
    _create_event()
    _create_event_head()
    _create_role_schedule()
    _create_rollout()
    _create_runtime_approval()
    _create_runtime_item()
    _create_runtime_turn()
    _create_thread()


def downgrade() -> None:
    with op.batch_alter_table("thread", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_thread_subject"))
        batch_op.drop_index(batch_op.f("ix_thread_role"))
        batch_op.drop_index(batch_op.f("ix_thread_parent_id"))

    op.drop_table("thread")
    with op.batch_alter_table("runtime_turn", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_runtime_turn_run_id"))

    op.drop_table("runtime_turn")
    with op.batch_alter_table("runtime_item", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_runtime_item_run_id"))

    op.drop_table("runtime_item")
    with op.batch_alter_table("runtime_approval", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_runtime_approval_state"))
        batch_op.drop_index(batch_op.f("ix_runtime_approval_run_id"))

    op.drop_table("runtime_approval")
    with op.batch_alter_table("rollout", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_rollout_digest"))
        batch_op.drop_index(batch_op.f("ix_rollout_created_at"))

    op.drop_table("rollout")
    op.drop_table("role_schedule")
    with op.batch_alter_table("event_head", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_event_head_updated_at"))

    op.drop_table("event_head")
    op.drop_table("event")
    with op.batch_alter_table("conversation", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_conversation_thread_id"))
        batch_op.drop_index(batch_op.f("ix_conversation_run_id"))

    op.drop_table("conversation")
    op.drop_table("blob")


def _create_blob() -> None:
    op.create_table(
        "blob",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_blob")),
    )


def _create_conversation() -> None:
    op.create_table(
        "conversation",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("runtime_kind", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("thread_reason", sa.String(), nullable=False),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.Column("worker", sa.String(), nullable=False),
        sa.Column("active_turn_id", sa.String(), nullable=True),
        sa.Column("opened_at", sa.DateTime(), nullable=False),
        sa.Column("closed_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversation")),
    )
    with op.batch_alter_table("conversation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_conversation_run_id"), ["run_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_conversation_thread_id"), ["thread_id"], unique=False)


def _create_event() -> None:
    op.create_table(
        "event",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("occurred_at", sa.DateTime(), nullable=False),
        sa.Column("domain", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String(), nullable=True),
        sa.Column("turn_id", sa.String(), nullable=True),
        sa.Column("item_id", sa.String(), nullable=True),
        sa.Column("approval_id", sa.String(), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "sequence", name=op.f("pk_event")),
    )


def _create_event_head() -> None:
    op.create_table(
        "event_head",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("trimmed", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_event_head")),
    )
    with op.batch_alter_table("event_head", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_event_head_updated_at"), ["updated_at"], unique=False)


def _create_role_schedule() -> None:
    op.create_table(
        "role_schedule",
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("report_id", sa.String(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("last_at", sa.DateTime(), nullable=False),
        sa.Column("last_price", sa.Float(), nullable=True),
        sa.Column("last_unrealized", sa.Float(), nullable=True),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("account", "market", "symbol", "role", name=op.f("pk_role_schedule")),
    )


def _create_rollout() -> None:
    op.create_table(
        "rollout",
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "generation", name=op.f("pk_rollout")),
    )
    with op.batch_alter_table("rollout", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_rollout_created_at"), ["created_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_rollout_digest"), ["digest"], unique=False)


def _create_runtime_approval() -> None:
    op.create_table(
        "runtime_approval",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("approval_id", sa.String(), nullable=True),
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("item_id", sa.String(), nullable=True),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("asked_at", sa.DateTime(), nullable=False),
        sa.Column("expires_at", sa.DateTime(), nullable=False),
        sa.Column("decided_at", sa.DateTime(), nullable=True),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("why", sa.String(), nullable=True),
        sa.Column("answers", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runtime_approval")),
    )
    with op.batch_alter_table("runtime_approval", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_runtime_approval_run_id"), ["run_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_runtime_approval_state"), ["state"], unique=False)


def _create_runtime_item() -> None:
    op.create_table(
        "runtime_item",
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("item_id", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("turn_id", "item_id", name=op.f("pk_runtime_item")),
    )
    with op.batch_alter_table("runtime_item", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_runtime_item_run_id"), ["run_id"], unique=False)


def _create_runtime_turn() -> None:
    op.create_table(
        "runtime_turn",
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("thread_id", "turn_id", name=op.f("pk_runtime_turn")),
    )
    with op.batch_alter_table("runtime_turn", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_runtime_turn_run_id"), ["run_id"], unique=False)


def _create_thread() -> None:
    op.create_table(
        "thread",
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("before_turn", sa.String(), nullable=True),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("worker", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("thread_id", name=op.f("pk_thread")),
    )
    with op.batch_alter_table("thread", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_thread_parent_id"), ["parent_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_thread_role"), ["role"], unique=False)
        batch_op.create_index(batch_op.f("ix_thread_subject"), ["subject"], unique=False)
