"""the board: questions, signals, forecasts with their citations, karma, episodes and play money

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

from chordesk.models.tables.columns import Utc

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "question",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("external_id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("rule", sa.JSON(), nullable=False),
        sa.Column("subjects", sa.JSON(), nullable=False),
        sa.Column("opens_at", Utc(), nullable=False),
        sa.Column("closes_at", Utc(), nullable=False),
        sa.Column("baseline", sa.Float(), nullable=True),
        sa.Column("baseline_source", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("outcome", sa.Float(), nullable=True),
        sa.Column("evidence", sa.JSON(), nullable=True),
        sa.Column("resolved_at", Utc(), nullable=True),
        sa.Column("resolved_by", sa.String(), nullable=True),
        sa.Column("note", sa.String(), nullable=True),
        sa.Column("author", sa.String(), nullable=False),
        sa.CheckConstraint("baseline is null or (baseline >= 0 and baseline <= 1)", name=op.f("ck_question_baseline")),
        sa.CheckConstraint("opens_at < closes_at", name=op.f("ck_question_opens_before_it_closes")),
        sa.CheckConstraint("outcome is null or (outcome >= 0 and outcome <= 1)", name=op.f("ck_question_outcome")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_question")),
        sa.UniqueConstraint("source", "market", "external_id", name=op.f("uq_question_source_market_external_id")),
    )
    op.create_index(op.f("ix_question_state_closes_at"), "question", ["state", "closes_at"])
    op.create_table(
        "verdict_question",
        sa.Column("verdict_id", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["question.id"], name=op.f("fk_verdict_question_question_id_question")
        ),
        sa.ForeignKeyConstraint(["verdict_id"], ["verdict.id"], name=op.f("fk_verdict_question_verdict_id_verdict")),
        sa.PrimaryKeyConstraint("verdict_id", name=op.f("pk_verdict_question")),
    )
    op.create_index(op.f("ix_verdict_question_question_id"), "verdict_question", ["question_id"])
    op.create_table(
        "question_pair",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("first_id", sa.String(), nullable=False),
        sa.Column("second_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("inverse", sa.Boolean(), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("decided_at", Utc(), nullable=True),
        sa.Column("why", sa.String(), nullable=True),
        sa.CheckConstraint("first_id < second_id", name=op.f("ck_question_pair_order")),
        sa.ForeignKeyConstraint(["first_id"], ["question.id"], name=op.f("fk_question_pair_first_id_question")),
        sa.ForeignKeyConstraint(["second_id"], ["question.id"], name=op.f("fk_question_pair_second_id_question")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_question_pair")),
        sa.UniqueConstraint("first_id", "second_id", name=op.f("uq_question_pair_first_id_second_id")),
    )
    op.create_table(
        "event_position",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("side", sa.String(), nullable=False),
        sa.Column("probability", sa.Float(), nullable=False),
        sa.Column("shares", sa.Float(), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("fee", sa.Float(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=False),
        sa.Column("opened_at", Utc(), nullable=False),
        sa.Column("payout", sa.Float(), nullable=True),
        sa.Column("closed_at", Utc(), nullable=True),
        sa.ForeignKeyConstraint(["question_id"], ["question.id"], name=op.f("fk_event_position_question_id_question")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_event_position_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event_position")),
        sa.UniqueConstraint("run_id", "question_id", name=op.f("uq_event_position_run_id_question_id")),
    )
    op.create_index(op.f("ix_event_position_account"), "event_position", ["account"])
    op.create_index(op.f("ix_event_position_question_id"), "event_position", ["question_id"])
    op.create_table(
        "episode_question",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("baseline", sa.Float(), nullable=True),
        sa.Column("baseline_source", sa.String(), nullable=False),
        sa.Column("chosen", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["question.id"], name=op.f("fk_episode_question_question_id_question")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_episode_question_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", "question_id", name=op.f("pk_episode_question")),
        sa.UniqueConstraint("run_id", "label", name=op.f("uq_episode_question_run_id_label")),
    )
    op.create_table(
        "signal",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=True),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("tool", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("headline", sa.String(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=True),
        sa.Column("basis", sa.String(), nullable=False),
        sa.Column("direction", sa.String(), nullable=False),
        sa.Column("subjects", sa.JSON(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("as_of", Utc(), nullable=False),
        sa.Column("probability", sa.Float(), nullable=True),
        sa.Column("implied", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_signal_run_id_run")),
        sa.ForeignKeyConstraint(["step_id"], ["step.id"], name=op.f("fk_signal_step_id_step")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signal")),
        sa.UniqueConstraint("run_id", "label", name=op.f("uq_signal_run_id_label")),
    )
    op.create_index(op.f("ix_signal_run_id"), "signal", ["run_id"])
    op.create_table(
        "forecast",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("voice", sa.String(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("probability", sa.Float(), nullable=False),
        sa.Column("stake", sa.Float(), nullable=False),
        sa.Column("because", sa.String(), nullable=False),
        sa.Column("chain", sa.JSON(), nullable=False),
        sa.Column("citations", sa.JSON(), nullable=False),
        sa.Column("baseline", sa.Float(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("market_at", Utc(), nullable=False),
        sa.ForeignKeyConstraint(["question_id"], ["question.id"], name=op.f("fk_forecast_question_id_question")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_forecast_run_id_run")),
        sa.ForeignKeyConstraint(["step_id"], ["step.id"], name=op.f("fk_forecast_step_id_step")),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_forecast_turn_id_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forecast")),
        sa.UniqueConstraint(
            "run_id", "voice", "round", "question_id", name=op.f("uq_forecast_run_id_voice_round_question_id")
        ),
    )
    op.create_index(op.f("ix_forecast_question_id"), "forecast", ["question_id"])
    op.create_index(op.f("ix_forecast_run_id"), "forecast", ["run_id"])
    op.create_index(op.f("ix_forecast_turn_id"), "forecast", ["turn_id"])
    op.create_index(op.f("ix_forecast_voice"), "forecast", ["voice"])
    op.create_table(
        "signal_citation",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("forecast_id", sa.String(), nullable=False),
        sa.Column("signal_id", sa.String(), nullable=True),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("stance", sa.String(), nullable=False),
        sa.Column("claim", sa.String(), nullable=False),
        sa.Column("counts", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("copied", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["forecast_id"], ["forecast.id"], name=op.f("fk_signal_citation_forecast_id_forecast")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_signal_citation_run_id_run")),
        sa.ForeignKeyConstraint(["signal_id"], ["signal.id"], name=op.f("fk_signal_citation_signal_id_signal")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signal_citation")),
        sa.UniqueConstraint("forecast_id", "ordinal", name=op.f("uq_signal_citation_forecast_id_ordinal")),
    )
    op.create_index(op.f("ix_signal_citation_run_id"), "signal_citation", ["run_id"])
    op.create_index(op.f("ix_signal_citation_signal_id"), "signal_citation", ["signal_id"])
    op.create_table(
        "karma_entry",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("voice", sa.String(), nullable=False),
        sa.Column("ledger", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("amount", sa.Float(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=True),
        sa.Column("market_at", Utc(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["question_id"], ["question.id"], name=op.f("fk_karma_entry_question_id_question")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_karma_entry_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_karma_entry")),
        sa.UniqueConstraint("account", "voice", "key", name=op.f("uq_karma_entry_account_voice_key")),
    )
    op.create_index(op.f("ix_karma_entry_run_id"), "karma_entry", ["run_id"])
    op.create_table(
        "episode",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("used_round", sa.Integer(), nullable=True),
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.Column("created_at", Utc(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_episode_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_episode")),
        sa.UniqueConstraint("account", "number", name=op.f("uq_episode_account_number")),
    )
    op.create_table(
        "calibration",
        sa.Column("created_at", Utc(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("rating", sa.String(), nullable=False),
        sa.Column("confidence", sa.String(), nullable=False),
        sa.Column("probability", sa.Float(), nullable=False),
        sa.Column("low", sa.Float(), nullable=False),
        sa.Column("high", sa.Float(), nullable=False),
        sa.Column("resolved", sa.Integer(), nullable=False),
        sa.Column("dates", sa.Integer(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibration")),
    )


def downgrade() -> None:
    for table in (
        "calibration",
        "episode",
        "karma_entry",
        "signal_citation",
        "forecast",
        "signal",
        "episode_question",
        "event_position",
        "question_pair",
        "verdict_question",
        "question",
    ):
        op.drop_table(table)
