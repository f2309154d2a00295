"""reports, verdicts, decisions and orders

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _verdict()
    _decision()
    _report()
    _order()
    _verdict_report()
    _fill()
    _preview()


def downgrade() -> None:
    with op.batch_alter_table("preview", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_preview_payload_hash"))
    op.drop_table("preview")
    with op.batch_alter_table("fill", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_fill_order_id"))
        batch_op.drop_index(batch_op.f("ix_fill_account"))
    op.drop_table("fill")
    op.drop_table("verdict_report")
    with op.batch_alter_table("order", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_order_symbol"))
        batch_op.drop_index(batch_op.f("ix_order_run_id"))
        batch_op.drop_index(batch_op.f("ix_order_account"))
    op.drop_table("order")
    with op.batch_alter_table("report", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_report_symbol"))
        batch_op.drop_index(batch_op.f("ix_report_run_id"))
        batch_op.drop_index(batch_op.f("ix_report_candidate_id"))
    op.drop_table("report")
    op.drop_table("decision")
    with op.batch_alter_table("verdict", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_verdict_run_id"))
    op.drop_table("verdict")


def _verdict() -> None:
    op.create_table(
        "verdict",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("rating", sa.String(), nullable=False),
        sa.Column("confidence", sa.String(), nullable=False),
        sa.Column("summary", sa.String(), nullable=False),
        sa.Column("key_risks", sa.JSON(), nullable=False),
        sa.Column("completed", sa.JSON(), nullable=False),
        sa.Column("missing", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_verdict_candidate_id_candidate")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_verdict_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdict")),
        sa.UniqueConstraint("run_id", "symbol", name=op.f("uq_verdict_run_id_symbol")),
    )
    with op.batch_alter_table("verdict", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_verdict_run_id"), ["run_id"], unique=False)


def _decision() -> None:
    op.create_table(
        "decision",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("actions", sa.JSON(), nullable=False),
        sa.Column("reasoning", sa.String(), nullable=False),
        sa.Column("spoken_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_decision_run_id_run")),
        sa.ForeignKeyConstraint(["step_id"], ["step.id"], name=op.f("fk_decision_step_id_step")),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_decision_turn_id_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decision")),
        sa.UniqueConstraint("run_id", name=op.f("uq_decision_run_id")),
    )


def _report() -> None:
    op.create_table(
        "report",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=True),
        sa.Column("confidence", sa.String(), nullable=True),
        sa.Column("summary", sa.String(), nullable=False),
        sa.Column("key_risks", sa.JSON(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("spoken_by", sa.String(), nullable=False),
        sa.Column("market_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_report_candidate_id_candidate")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_report_run_id_run")),
        sa.ForeignKeyConstraint(["step_id"], ["step.id"], name=op.f("fk_report_step_id_step")),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_report_turn_id_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report")),
        sa.UniqueConstraint("run_id", "symbol", "role", name=op.f("uq_report_run_id_symbol_role")),
    )
    with op.batch_alter_table("report", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_report_candidate_id"), ["candidate_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_report_run_id"), ["run_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_report_symbol"), ["symbol"], unique=False)


def _order() -> None:
    op.create_table(
        "order",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("decision_id", sa.String(), nullable=False),
        sa.Column("verdict_id", sa.String(), nullable=True),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("side", sa.String(), nullable=True),
        sa.Column("quantity", sa.Float(), nullable=True),
        sa.Column("notional", sa.Float(), nullable=True),
        sa.Column("order_type", sa.String(), nullable=True),
        sa.Column("limit_price", sa.Float(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("denial_code", sa.String(), nullable=True),
        sa.Column("denial_reason", sa.String(), nullable=True),
        sa.Column("measured", sa.String(), nullable=True),
        sa.Column("limit_text", sa.String(), nullable=True),
        sa.Column("broker_order_id", sa.String(), nullable=True),
        sa.Column("message", sa.String(), nullable=True),
        sa.Column("market_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.CheckConstraint("verdict_id is not null or state in ('drafted', 'denied')", name=op.f("ck_order_verdict")),
        sa.ForeignKeyConstraint(["decision_id"], ["decision.id"], name=op.f("fk_order_decision_id_decision")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_order_run_id_run")),
        sa.ForeignKeyConstraint(["verdict_id"], ["verdict.id"], name=op.f("fk_order_verdict_id_verdict")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_order")),
        sa.UniqueConstraint("decision_id", "ordinal", name=op.f("uq_order_decision_id_ordinal")),
    )
    with op.batch_alter_table("order", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_order_account"), ["account"], unique=False)
        batch_op.create_index(batch_op.f("ix_order_run_id"), ["run_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_order_symbol"), ["symbol"], unique=False)


def _verdict_report() -> None:
    op.create_table(
        "verdict_report",
        sa.Column("verdict_id", sa.String(), nullable=False),
        sa.Column("report_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["report_id"], ["report.id"], name=op.f("fk_verdict_report_report_id_report")),
        sa.ForeignKeyConstraint(["verdict_id"], ["verdict.id"], name=op.f("fk_verdict_report_verdict_id_verdict")),
        sa.PrimaryKeyConstraint("verdict_id", "report_id", name=op.f("pk_verdict_report")),
    )


def _fill() -> None:
    op.create_table(
        "fill",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("side", sa.String(), nullable=False),
        sa.Column("quantity", sa.Float(), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("commission", sa.Float(), nullable=False),
        sa.Column("filled_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["order.id"], name=op.f("fk_fill_order_id_order")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fill")),
    )
    with op.batch_alter_table("fill", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_fill_account"), ["account"], unique=False)
        batch_op.create_index(batch_op.f("ix_fill_order_id"), ["order_id"], unique=False)


def _preview() -> None:
    op.create_table(
        "preview",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("payload", sa.String(), nullable=False),
        sa.Column("payload_hash", sa.String(), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("priced_at", sa.DateTime(), nullable=False),
        sa.Column("notional", sa.Float(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["order.id"], name=op.f("fk_preview_order_id_order")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_preview")),
        sa.UniqueConstraint("order_id", name=op.f("uq_preview_order_id")),
    )
    with op.batch_alter_table("preview", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_preview_payload_hash"), ["payload_hash"], unique=False)
