"""runs, steps, turns, hits, candidates and the account

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _account()
    _run()
    _candidate()
    _position()
    _step()
    _turn()
    _screen_hit()
    _tool_call()
    _candidate_hit()


def downgrade() -> None:
    op.drop_table("candidate_hit")
    with op.batch_alter_table("tool_call", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_tool_call_turn_id"))
    op.drop_table("tool_call")
    with op.batch_alter_table("screen_hit", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_screen_hit_run_id"))
    op.drop_table("screen_hit")
    with op.batch_alter_table("turn", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_turn_thread_id"))
        batch_op.drop_index(batch_op.f("ix_turn_step_id"))
        batch_op.drop_index(batch_op.f("ix_turn_run_id"))
    op.drop_table("turn")
    with op.batch_alter_table("step", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_step_run_id"))
        batch_op.drop_index(batch_op.f("ix_step_parent_id"))
        batch_op.drop_index("ix_step_due")
    op.drop_table("step")
    op.drop_table("position")
    with op.batch_alter_table("candidate", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_candidate_run_id"))
    op.drop_table("candidate")
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_run_state"))
        batch_op.drop_index(batch_op.f("ix_run_created_at"))
    op.drop_table("run")
    op.drop_table("account")


def _account() -> None:
    op.create_table(
        "account",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("cash", sa.Float(), nullable=False),
        sa.Column("opened_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_account")),
    )


def _run() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("market_now", sa.DateTime(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.Column("schedule", sa.String(), nullable=True),
        sa.Column("slot", sa.String(), nullable=True),
        sa.Column("parent_run_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("deadline_at", sa.DateTime(), nullable=False),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["parent_run_id"], ["run.id"], name=op.f("fk_run_parent_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("schedule", "slot", name=op.f("uq_run_schedule_slot")),
    )
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_run_created_at"), ["created_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_run_state"), ["state"], unique=False)


def _candidate() -> None:
    op.create_table(
        "candidate",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("instrument", sa.String(), nullable=False),
        sa.Column("confidence", sa.String(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_candidate_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate")),
        sa.UniqueConstraint("run_id", "symbol", name=op.f("uq_candidate_run_id_symbol")),
    )
    with op.batch_alter_table("candidate", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_candidate_run_id"), ["run_id"], unique=False)


def _position() -> None:
    op.create_table(
        "position",
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("quantity", sa.Float(), nullable=False),
        sa.Column("average_cost", sa.Float(), nullable=False),
        sa.Column("filled_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["account.name"], name=op.f("fk_position_account_account")),
        sa.PrimaryKeyConstraint("account", "symbol", name=op.f("pk_position")),
    )


def _step() -> None:
    op.create_table(
        "step",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("pending", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("lease_until", sa.DateTime(), nullable=True),
        sa.Column("due_at", sa.DateTime(), nullable=False),
        sa.Column("sent_at", sa.DateTime(), nullable=True),
        sa.Column("sends", sa.Integer(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=True),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.CheckConstraint("pending >= 0", name=op.f("ck_step_pending")),
        sa.ForeignKeyConstraint(["parent_id"], ["step.id"], name=op.f("fk_step_parent_id_step")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_step_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_step")),
        sa.UniqueConstraint("run_id", "kind", "subject", "role", name=op.f("uq_step_run_id_kind_subject_role")),
    )
    with op.batch_alter_table("step", schema=None) as batch_op:
        batch_op.create_index("ix_step_due", ["state", "due_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_step_parent_id"), ["parent_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_step_run_id"), ["run_id"], unique=False)


def _turn() -> None:
    op.create_table(
        "turn",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String(), nullable=True),
        sa.Column("thread_reason", sa.String(), nullable=True),
        sa.Column("codex_turn_id", sa.String(), nullable=True),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("failure_kind", sa.String(), nullable=True),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("cached_input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=False),
        sa.Column("total_tokens", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("finished_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_turn_run_id_run")),
        sa.ForeignKeyConstraint(["step_id"], ["step.id"], name=op.f("fk_turn_step_id_step")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turn")),
    )
    with op.batch_alter_table("turn", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_turn_run_id"), ["run_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_turn_step_id"), ["step_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_turn_thread_id"), ["thread_id"], unique=False)


def _screen_hit() -> None:
    op.create_table(
        "screen_hit",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("lens", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("instrument", sa.String(), nullable=False),
        sa.Column("confidence", sa.String(), nullable=False),
        sa.Column("thesis", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_screen_hit_run_id_run")),
        sa.ForeignKeyConstraint(["step_id"], ["step.id"], name=op.f("fk_screen_hit_step_id_step")),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_screen_hit_turn_id_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_screen_hit")),
        sa.UniqueConstraint("step_id", "symbol", name=op.f("uq_screen_hit_step_id_symbol")),
    )
    with op.batch_alter_table("screen_hit", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_screen_hit_run_id"), ["run_id"], unique=False)


def _tool_call() -> None:
    op.create_table(
        "tool_call",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("tool", sa.String(), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("output", sa.String(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("has_data", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_tool_call_turn_id_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_call")),
    )
    with op.batch_alter_table("tool_call", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_tool_call_turn_id"), ["turn_id"], unique=False)


def _candidate_hit() -> None:
    op.create_table(
        "candidate_hit",
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("hit_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidate.id"], name=op.f("fk_candidate_hit_candidate_id_candidate")
        ),
        sa.ForeignKeyConstraint(["hit_id"], ["screen_hit.id"], name=op.f("fk_candidate_hit_hit_id_screen_hit")),
        sa.PrimaryKeyConstraint("candidate_id", "hit_id", name=op.f("pk_candidate_hit")),
    )
