"""The whole schema

Revision ID: 0029
Revises:
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = None
branch_labels = None
depends_on = None


def table(
    name: str,
    key: str,
    *,
    refs: str = "",
    unique: Sequence[str] = (),
    indexes: Sequence[str] = (),
    checks: Mapping[str, str] | None = None,
    **columns: str,
) -> None:
    """Create a table. columns: names by type, with `_or_null` where they may be null; refs: `column:table.column` of
    foreign keys; indexes: their columns, after a name of their own and a colon where they have one. Names are by the
    metadata's convention."""
    made = [
        sa.Column(column, TYPES[kind.removesuffix("_or_null")](), nullable=kind.endswith("_or_null"))
        for kind, names in columns.items()
        for column in names.split()
    ]
    rules: list[sa.Constraint] = [sa.PrimaryKeyConstraint(*key.split(), name=f"pk_{name}")]
    for ref in refs.split():
        column, _, target = ref.partition(":")
        rules.append(sa.ForeignKeyConstraint([column], [target], name=f"fk_{name}_{column}_{target.partition('.')[0]}"))
    rules += [sa.UniqueConstraint(*one.split(), name=f"uq_{name}_{one.replace(' ', '_')}") for one in unique]
    rules += [sa.CheckConstraint(text, name=each) for each, text in (checks or {}).items()]
    op.create_table(name, *made, *rules)
    for index in indexes:
        own, _, names = index.rpartition(":")
        op.create_index(f"ix_{name}_{own or names.split()[0]}", name, names.split())


TYPES = {
    "text": sa.String,
    "time": sa.DateTime,
    "json": sa.JSON,
    "real": sa.Float,
    "integer": sa.Integer,
    "big": sa.BigInteger,
    "flag": sa.Boolean,
    "blob": sa.LargeBinary,
    "date": sa.Date,
}


def downgrade() -> None:
    found = sa.MetaData()
    found.reflect(op.get_bind(), only=lambda name, _: name != "alembic_version")
    found.drop_all(op.get_bind())


def upgrade() -> None:
    _tables()
    # The one row of each, which is locked and updated.
    op.bulk_insert(sa.table("sweep", sa.column("id"), sa.column("found", sa.JSON)), [{"id": 1, "found": {}}])
    op.bulk_insert(sa.table("notification_sender", sa.column("id")), [{"id": 1}])


def _tables() -> None:
    table("account", "name", text="name", time="opened_at", real="cash opening_cash")
    table(
        "api_token",
        "name",
        text="name digest made_by",
        time="made_at",
        time_or_null="revoked_at",
        json="scopes",
        indexes=["digest"],
    )
    table(
        "audit_anchor",
        "chain",
        text="chain place head",
        text_or_null="verified_head",
        time="at",
        time_or_null="verified_at",
        integer="count",
        integer_or_null="verified_count",
        big="size",
        big_or_null="verified_size",
    )
    table("blob", "digest", text="digest", time="created_at", blob="data")
    table(
        "calibration",
        "id",
        text="id rating confidence",
        time="created_at",
        json_or_null="detail",
        real="probability low high",
        integer="resolved dates",
    )
    table("cassette_part", "digest", text="digest", blob="body")
    table(
        "cassette_turn",
        "id",
        text="id opened run_id role subject runtime model part",
        time="kept_at",
        blob="body",
        indexes=["opened", "run_id", "role:role subject kept_at"],
    )
    table(
        "conversation",
        "id",
        text="id run_id step_id role subject runtime_kind thread_id thread_reason worker",
        text_or_null="active_turn_id",
        time="opened_at",
        time_or_null="closed_at",
        flag="kept",
        indexes=["run_id", "thread_id"],
    )
    table("equity_mark", "account day", text="account", time="updated_at", real="opening last high_water", date="day")
    table("event_batch", "run_id last", text="run_id events", time="newest_at", big="last first")
    table("event_head", "run_id", text="run_id", time="updated_at", big="last trimmed", indexes=["updated_at"])
    table(
        "identity",
        "id",
        text="desk migrations",
        time="made_at",
        integer="id",
        checks={"ck_identity_single": "id = 1"},
    )
    table(
        "mandate",
        "version",
        text="broker document signature",
        text_or_null="disarmed_by",
        time="armed_at",
        time_or_null="disarmed_at",
        integer="version",
        indexes=["broker"],
    )
    table("masked_turn", "id", text="id run_id step_id role subject", blob="body", indexes=["run_id"])
    table(
        "notice",
        "id",
        text="id key kind run_id subject",
        time="occurred_at",
        time_or_null="taken_at",
        json="facts",
        unique=["key"],
        indexes=["taken:taken_at id"],
    )
    table(
        "notification",
        "id",
        text="id channel kind run_id subject title text state",
        text_or_null="held owner into error",
        time="created_at next_at",
        time_or_null="sent_at ended_at",
        json="tally lines",
        integer="attempts",
        flag="urgent",
        indexes=["due:state next_at", "sent:channel sent_at"],
    )
    table("notification_channel", "name", text="name service", text_or_null="quiet", time="since seen_at", json="kinds")
    table(
        "notification_part", "channel notice_id", text="channel notice_id notification_id", indexes=["notification_id"]
    )
    table(
        "notification_sender",
        "id",
        text_or_null="owner",
        time_or_null="lease_until seen_at",
        integer="id",
        checks={"ck_notification_sender_single": "id = 1"},
    )
    table(
        "option_mark",
        "symbol day source",
        text="symbol source",
        time="created_at",
        real_or_null="at_the_money_iv put_volume call_volume put_open_interest call_open_interest",
        date="day",
    )
    table("process", "name", text="name", time="started_at seen_at", json="settings")
    table(
        "question",
        "id",
        text="id source market external_id text baseline_source criteria background state author",
        text_or_null="url event resolved_by note",
        time="created_at opens_at closes_at",
        time_or_null="resolved_at",
        json="rule subjects",
        json_or_null="evidence",
        real_or_null="baseline outcome",
        unique=["source market external_id"],
        indexes=["state_closes_at:state closes_at", "resolved_at"],
        checks={
            "ck_question_outcome": "outcome is null or (outcome >= 0 and outcome <= 1)",
            "ck_question_opens_before_it_closes": "opens_at < closes_at",
            "ck_question_baseline": "baseline is null or (baseline >= 0 and baseline <= 1)",
        },
    )
    table(
        "reconciliation",
        "id",
        text="id account owner",
        time="at",
        json="differences",
        flag="agreed",
        indexes=["account at id"],
    )
    table(
        "kept_answer",
        "key",
        text="key request",
        text_or_null="media_type body",
        time="claimed_at",
        integer_or_null="status",
        indexes=["claimed_at"],
    )
    table(
        "role_schedule",
        "account market symbol role",
        text="account market symbol role run_id reason",
        text_or_null="report_id",
        time="last_at updated_at",
        real_or_null="last_price last_unrealized",
    )
    table(
        "rollout",
        "thread_id generation",
        text="thread_id digest path record",
        time="created_at",
        integer="generation turns",
        big="token size",
        indexes=["created_at", "digest"],
    )
    table(
        "run",
        "id",
        text="id kind state account provider model market",
        text_or_null="schedule slot parent_run_id",
        time="market_now created_at deadline_at",
        time_or_null="finished_at",
        json="params notes summary",
        json_or_null="settings regime",
        refs="parent_run_id:run.id",
        unique=["schedule slot"],
        indexes=["created_at", "parent_run_id created_at id", "state"],
    )
    table(
        "runtime_approval",
        "id",
        text="id state run_id step_id role kind thread_id turn_id",
        text_or_null="decided_by why approval_id item_id",
        time="asked_at expires_at",
        time_or_null="decided_at",
        json="detail answers",
        integer="attempt",
        indexes=["run_id", "state"],
    )
    table(
        "runtime_item",
        "turn_id item_id",
        text="turn_id item_id thread_id run_id type status",
        time="started_at",
        time_or_null="ended_at",
        indexes=["run_id"],
    )
    table(
        "runtime_turn",
        "thread_id turn_id",
        text="thread_id turn_id run_id status",
        text_or_null="phase",
        time="started_at",
        time_or_null="ended_at",
        integer="tokens",
        indexes=["run_id"],
    )
    table(
        "settlement",
        "account id",
        text="account id kind symbol",
        time="created_at settled_at",
        real="quantity price",
        indexes=["at:account settled_at id"],
    )
    table(
        "books_mark",
        "account booked_at",
        text="account id moved",
        time="booked_at market_at",
        json="held",
    )
    table("schedule_entry", "name", text="name kind at by", time="changed_at", flag="enabled")
    table("score_mark", "account", text="account", time="since", json="rests_on board")
    table("submitter", "account", text="account owner", time="taken_at", integer="token")
    table(
        "sweep",
        "id",
        text_or_null="owner redis_mark",
        time_or_null="lease_until last_at trusted_from trusted_until",
        json="found",
        integer="id",
        checks={"ck_sweep_single": "id = 1"},
    )
    table(
        "thread",
        "thread_id",
        text="thread_id role subject mode model reason worker",
        text_or_null="parent_id before_turn",
        time="created_at",
        indexes=["created_at", "parent_id", "role created_at", "subject role created_at"],
    )
    table("trading", "account", text="account state why by", time="since")
    table(
        "backtest_session",
        "id",
        text="id backtest_id run_id state",
        text_or_null="reason screen_run_id trade_run_id",
        time="created_at",
        json="orders denials verdicts unpriced stale",
        real="cash traded",
        real_or_null="equity exposure",
        date="day",
        refs="backtest_id:run.id run_id:run.id screen_run_id:run.id trade_run_id:run.id",
        unique=["backtest_id day"],
        indexes=["backtest_id", "run_id", "screen_run_id", "trade_run_id"],
    )
    table(
        "candidate",
        "id",
        text="id run_id symbol instrument origin",
        text_or_null="confidence",
        real="score",
        integer="rank",
        refs="run_id:run.id",
        unique=["run_id symbol"],
        indexes=["run_id"],
    )
    table(
        "episode",
        "run_id",
        text="run_id account content",
        time="created_at",
        json="summary",
        integer="number rounds",
        integer_or_null="used_round",
        refs="run_id:run.id",
        unique=["account number"],
    )
    table(
        "episode_question",
        "run_id question_id",
        text="run_id question_id label baseline_source chosen",
        real_or_null="baseline blind informed",
        refs="run_id:run.id question_id:question.id",
        unique=["run_id label"],
        indexes=["question_id"],
    )
    table(
        "event_position",
        "id",
        text="id account run_id question_id side",
        time="created_at opened_at",
        time_or_null="closed_at",
        real="probability shares price fee cost",
        real_or_null="payout",
        refs="run_id:run.id question_id:question.id",
        unique=["run_id question_id"],
        indexes=["account payout", "question_id"],
    )
    table(
        "graph_part",
        "run_id thread place digest",
        text="run_id thread place digest form",
        integer="number",
        blob="content",
        refs="run_id:run.id",
    )
    table(
        "graph_write",
        "run_id thread place task ordinal",
        text="run_id thread place task checkpoint_id path channel form",
        integer="ordinal",
        blob="content",
        refs="run_id:run.id",
    )
    table(
        "graph_memory",
        "namespace key",
        text="namespace key",
        time="created_at updated_at",
        json="value",
    )
    table(
        "karma_entry",
        "id",
        text="id account voice run_id question_id note",
        time="created_at market_at",
        real="amount",
        refs="run_id:run.id question_id:question.id",
        unique=["account voice question_id"],
        indexes=["run_id"],
    )
    table(
        "position",
        "account symbol",
        text="account symbol",
        time="filled_at",
        real="quantity average_cost",
        refs="account:account.name",
    )
    table(
        "question_pair",
        "id",
        text="id first_id second_id state",
        text_or_null="decided_by why",
        time="created_at",
        time_or_null="decided_at",
        real="score",
        flag="inverse",
        refs="first_id:question.id second_id:question.id",
        unique=["first_id second_id"],
        checks={"ck_question_pair_order": "first_id < second_id"},
    )
    table(
        "run_document_copy",
        "run_id",
        text="run_id state place",
        text_or_null="error",
        time="due_at",
        time_or_null="written_at",
        integer="tries",
        refs="run_id:run.id",
        indexes=["state"],
    )
    table(
        "step",
        "id",
        text="id run_id kind subject role state",
        text_or_null="parent_id owner error",
        time="created_at due_at",
        time_or_null="lease_until sent_at started_at claimed_at finished_at",
        json="payload result",
        integer="pending attempt max_attempts sends",
        refs="run_id:run.id parent_id:step.id",
        unique=["run_id kind subject role"],
        indexes=["due:state due_at", "parent_id state", "run_id"],
        checks={"ck_step_pending": "pending >= 0"},
    )
    table(
        "attempt",
        "id",
        text="id step_id owner outcome",
        text_or_null="reason",
        time="started_at ended_at",
        integer="attempt",
        refs="step_id:step.id",
        indexes=["step_id"],
    )
    table(
        "graph_checkpoint",
        "run_id thread place checkpoint_id",
        text="run_id thread place checkpoint_id form about_form step_id",
        text_or_null="parent_id",
        time="written_at",
        integer="attempt",
        json="lists",
        blob="content about",
        refs="run_id:run.id step_id:step.id",
        indexes=["step_id"],
    )
    table(
        "signal",
        "id",
        text="id run_id label tool owner state headline basis direction source",
        text_or_null="step_id",
        time="created_at as_of",
        json="data subjects",
        real="precision",
        integer="resolved",
        real_or_null="confidence probability",
        refs="run_id:run.id step_id:step.id",
        unique=["run_id label"],
        indexes=["run_id", "step_id"],
    )
    table(
        "turn",
        "id",
        text="id run_id step_id role subject provider model status outcome text",
        text_or_null="thread_id thread_reason codex_turn_id failure_kind way",
        time="started_at finished_at",
        real_or_null="cost_usd",
        integer="attempt ordinal",
        integer_or_null="input_tokens cached_input_tokens output_tokens reasoning_tokens total_tokens",
        flag="kept",
        refs="run_id:run.id step_id:step.id",
        indexes=["id_tokens:id total_tokens", "run_tokens:run_id total_tokens", "step_id", "thread_id"],
    )
    table(
        "verdict",
        "id",
        text="id run_id candidate_id symbol rating confidence summary",
        time="created_at market_at",
        json="key_risks completed missing",
        json_or_null="pooled",
        refs="run_id:run.id candidate_id:candidate.id",
        unique=["run_id symbol"],
        indexes=["candidate_id", "run_id", "symbol market_at created_at"],
    )
    table(
        "analysis",
        "id",
        text="id run_id candidate_id verdict_id symbol strategy recommendation rating confidence",
        text_or_null="contract turn_id headline summary author",
        time="created_at",
        json="figures checks reasons key_risks",
        json_or_null="grounding",
        refs="run_id:run.id candidate_id:candidate.id verdict_id:verdict.id turn_id:turn.id",
        unique=["run_id symbol"],
        indexes=["candidate_id", "run_id", "turn_id", "verdict_id"],
    )
    table(
        "decision",
        "id",
        text="id run_id step_id account status reasoning author",
        text_or_null="turn_id",
        time="created_at",
        time_or_null="processed_at",
        json="actions",
        refs="run_id:run.id step_id:step.id turn_id:turn.id",
        unique=["run_id"],
        indexes=["account created_at", "step_id", "turn_id"],
    )
    table(
        "forecast",
        "id",
        text="id run_id step_id turn_id question_id account voice because author",
        text_or_null="change",
        time="created_at market_at",
        json="chain citations",
        real="probability stated stake baseline",
        integer="round",
        flag="booked",
        refs="run_id:run.id step_id:step.id turn_id:turn.id question_id:question.id",
        unique=["run_id voice round question_id"],
        indexes=[
            "account market_at",
            "booked:account booked",
            "question_id account voice",
            "run_id",
            "step_id",
            "turn_id",
            "voice:account voice market_at",
        ],
    )
    table(
        "report",
        "id",
        text="id run_id step_id candidate_id turn_id symbol role status summary author",
        text_or_null="verdict confidence answer_schema reason",
        time="created_at market_at",
        json="key_risks",
        json_or_null="answer grounding thesis",
        refs="run_id:run.id step_id:step.id candidate_id:candidate.id turn_id:turn.id",
        unique=["run_id symbol role"],
        indexes=["candidate_id", "run_id", "step_id", "symbol market_at created_at", "turn_id"],
    )
    table(
        "screen_hit",
        "id",
        text="id run_id step_id turn_id lens symbol instrument confidence thesis",
        time="market_at",
        refs="run_id:run.id step_id:step.id turn_id:turn.id",
        unique=["step_id symbol"],
        indexes=["lens symbol market_at id", "market_at", "run_id", "symbol market_at id", "turn_id"],
    )
    table(
        "tool_call",
        "id",
        text="id turn_id tool output",
        text_or_null="rogue",
        json="arguments",
        real="seconds",
        integer="ordinal",
        flag="success has_data",
        refs="turn_id:turn.id",
        indexes=["turn_id"],
    )
    table(
        "thesis_question",
        "report_id",
        text="report_id question_id",
        flag="watched",
        date_or_null="crossed_on",
        refs="report_id:report.id question_id:question.id",
        indexes=["question_id", "watched"],
    )
    table(
        "verdict_question",
        "verdict_id",
        text="verdict_id question_id",
        refs="verdict_id:verdict.id question_id:question.id",
        indexes=["question_id"],
    )
    table(
        "artifact",
        "id",
        text="id run_id turn_id call_id kind digest",
        time="created_at",
        integer="size",
        refs="run_id:run.id turn_id:turn.id call_id:tool_call.id",
        indexes=["call_id", "run_id", "turn_id"],
    )
    table(
        "candidate_hit",
        "candidate_id hit_id",
        text="candidate_id hit_id",
        refs="candidate_id:candidate.id hit_id:screen_hit.id",
        indexes=["hit_id"],
    )
    table(
        "order",
        "id",
        text="id run_id decision_id account symbol action time_in_force state",
        text_or_null=(
            "verdict_id side order_type contract exit_reason protects denial_code denial_reason measured limit_text "
            "broker_order_id message"
        ),
        time="created_at market_at updated_at",
        time_or_null="sent_at",
        json_or_null="legs plan",
        real="multiplier",
        real_or_null="quantity notional limit_price stop_price trail_percent",
        integer="ordinal",
        integer_or_null="fence",
        refs="run_id:run.id decision_id:decision.id verdict_id:verdict.id",
        unique=["decision_id ordinal"],
        indexes=[
            "account created_at ordinal",
            "newest:created_at ordinal",
            "protects",
            "run_id",
            "state:account state market_at",
            "symbol created_at ordinal",
            "verdict_id",
        ],
        checks={
            "ck_order_verdict": "verdict_id is not null or state in ('drafted', 'denied') "
            "or action in ('close', 'reduce')"
        },
    )
    table(
        "signal_citation",
        "id",
        text="id run_id forecast_id label stance claim",
        text_or_null="signal_id reason",
        time="created_at",
        real_or_null="copied",
        integer="ordinal",
        flag="counts",
        refs="run_id:run.id forecast_id:forecast.id signal_id:signal.id",
        unique=["forecast_id ordinal"],
        indexes=["run_id", "signal_id"],
    )
    table(
        "trader_note",
        "id",
        text="id account symbol decision_id action outcome line",
        time="market_at",
        integer="ordinal",
        refs="decision_id:decision.id",
        unique=["decision_id ordinal"],
        indexes=["account symbol market_at id"],
    )
    table(
        "verdict_report",
        "verdict_id report_id",
        text="verdict_id report_id",
        refs="verdict_id:verdict.id report_id:report.id",
        indexes=["report_id"],
    )
    table(
        "approval",
        "id",
        text="id state order_id payload_hash",
        text_or_null="decided_by why",
        time="asked_at expires_at",
        time_or_null="decided_at",
        real="notional",
        refs="order_id:order.id",
        unique=["order_id"],
        indexes=["state"],
    )
    table(
        "fill",
        "id",
        text="id order_id account symbol side",
        time="created_at filled_at",
        real="quantity price commission",
        refs="order_id:order.id",
        indexes=["booked:account created_at id", "at:account filled_at id", "order_id"],
    )
    table("order_check", "order_id", text="order_id", time="market_at", json="answers", refs="order_id:order.id")
    table(
        "preview",
        "id",
        text="id order_id payload payload_hash",
        time="created_at priced_at",
        real="price notional",
        refs="order_id:order.id",
        unique=["order_id"],
        indexes=["payload_hash"],
    )
