"""The whole schema

Revision ID: 0029
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = None
branch_labels = None
depends_on = None

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
    for table in TABLES.replace("\n        ", " ").replace("\n    ", "\t").split("\n"):
        _create(*table.split("\t"))
    # The one row of each, which is locked and updated.
    op.bulk_insert(sa.table("sweep", sa.column("id"), sa.column("found", sa.JSON)), [{"id": 1, "found": {}}])
    op.bulk_insert(sa.table("notification_sender", sa.column("id")), [{"id": 1}])


def _create(title: str, columns: str, *rules: str) -> None:
    name, _, key = title.rstrip(")").partition(" (")
    made: list[sa.Column[object] | sa.Constraint] = []
    for group in columns.split("; "):
        kind, *names = group.split()
        made += [sa.Column(each, TYPES[kind.rstrip("?")](), nullable=kind.endswith("?")) for each in names]
    made.append(sa.PrimaryKeyConstraint(*key.split(", "), name=f"pk_{name}"))
    indexes: list[str] = []
    for kind, _, text in (rule.partition(" ") for rule in rules):
        if kind == "check":
            own, _, condition = text.partition(" ")
            made.append(sa.CheckConstraint(condition, name=own))
            continue
        for each in text.split("; "):
            if kind == "refs":
                column, target = each.split()
                other = target.partition(".")[0]
                made.append(sa.ForeignKeyConstraint([column], [target], name=f"fk_{name}_{column}_{other}"))
            elif kind == "unique":
                made.append(sa.UniqueConstraint(*each.split(), name=f"uq_{name}_{each.replace(' ', '_')}"))
            else:
                indexes.append(each)
    op.create_table(name, *made)
    for index in indexes:
        prefix, _, columns = index.rpartition(":")
        op.create_index(f"ix_{name}_{prefix or columns.split()[0]}", name, columns.split())


# Each table with its primary key, its columns by type (? where they may be null), its foreign keys, and its indexes,
# which are named after their first column, or by the word before a colon. Names are by the metadata's convention.
TABLES = """\
account (name)
    text name; time opened_at; real cash opening_cash
api_token (name)
    text name digest made_by; time made_at; time? revoked_at; json scopes
    index digest
audit_anchor (chain)
    text chain place head; text? verified_head; time at; time? verified_at; integer count; integer? verified_count;
        big size; big? verified_size
blob (digest)
    text digest; time created_at; blob data
calibration (id)
    text id rating confidence; time created_at; json? detail; real probability low high; integer resolved dates
cassette_part (digest)
    text digest; blob body
cassette_turn (id)
    text id opened run_id role subject runtime model part; time kept_at; blob body
    index opened; run_id; role:role subject kept_at
conversation (id)
    text id run_id step_id role subject runtime_kind thread_id thread_reason worker; text? active_turn_id; time
        opened_at; time? closed_at; flag kept
    index run_id; thread_id
equity_mark (account, day)
    text account; time updated_at; real opening last high_water; date day
event_batch (run_id, last)
    text run_id events; time newest_at; big last first
event_head (run_id)
    text run_id; time updated_at; big last trimmed
    index updated_at
identity (id)
    text desk migrations; time made_at; integer id
    check ck_identity_single id = 1
mandate (version)
    text broker document signature; text? disarmed_by; time armed_at; time? disarmed_at; integer version
    index broker
masked_turn (id)
    text id run_id step_id role subject; blob body
    index run_id
notice (id)
    text id key kind run_id subject; time occurred_at; time? taken_at; json facts
    unique key
    index taken:taken_at id
notification (id)
    text id channel kind run_id subject title text state; text? held owner into error; time created_at next_at;
        time? sent_at ended_at; json tally lines; integer attempts; flag urgent
    index due:state next_at; sent:channel sent_at
notification_channel (name)
    text name service; text? quiet; time since seen_at; json kinds
notification_part (channel, notice_id)
    text channel notice_id notification_id
    index notification_id
notification_sender (id)
    text? owner; time? lease_until seen_at; integer id
    check ck_notification_sender_single id = 1
option_mark (symbol, day, source)
    text symbol source; time created_at; real? at_the_money_iv put_volume call_volume put_open_interest
        call_open_interest; date day
process (name)
    text name; time started_at seen_at; json settings
question (id)
    text id source market external_id text baseline_source criteria background state author; text? url event
        resolved_by note; time created_at opens_at closes_at; time? resolved_at; json rule subjects; json? evidence;
        real? baseline outcome
    unique source market external_id
    index state_closes_at:state closes_at; resolved_at
    check ck_question_outcome outcome is null or (outcome >= 0 and outcome <= 1)
    check ck_question_opens_before_it_closes opens_at < closes_at
    check ck_question_baseline baseline is null or (baseline >= 0 and baseline <= 1)
reconciliation (id)
    text id account owner; time at; json differences; flag agreed
    index account at id
kept_answer (key)
    text key request; text? media_type body; time claimed_at; integer? status
    index claimed_at
role_schedule (account, market, symbol, role)
    text account market symbol role run_id reason; text? report_id; time last_at updated_at; real? last_price
        last_unrealized
rollout (thread_id, generation)
    text thread_id digest path record; time created_at; integer generation turns; big token size
    index created_at; digest
run (id)
    text id kind state account provider model market; text? schedule slot parent_run_id; time market_now created_at
        deadline_at; time? finished_at; json params notes summary; json? settings regime
    refs parent_run_id run.id
    unique schedule slot
    index created_at; parent_run_id created_at id; state
runtime_approval (id)
    text id state run_id step_id role kind thread_id turn_id; text? decided_by why approval_id item_id; time
        asked_at expires_at; time? decided_at; json detail answers; integer attempt
    index run_id; state
runtime_item (turn_id, item_id)
    text turn_id item_id thread_id run_id type status; time started_at; time? ended_at
    index run_id
runtime_turn (thread_id, turn_id)
    text thread_id turn_id run_id status; text? phase; time started_at; time? ended_at; integer tokens
    index run_id
settlement (account, id)
    text account id kind symbol; time created_at settled_at; real quantity price
    index at:account settled_at id
books_mark (account, booked_at)
    text account id moved; time booked_at market_at; json held
schedule_entry (name)
    text name kind at by; time changed_at; flag enabled
score_mark (account)
    text account; time since; json rests_on board
submitter (account)
    text account owner; time taken_at; integer token
sweep (id)
    text? owner redis_mark; time? lease_until last_at trusted_from trusted_until; json found; integer id
    check ck_sweep_single id = 1
thread (thread_id)
    text thread_id role subject mode model reason worker; text? parent_id before_turn; time created_at
    index created_at; parent_id; role created_at; subject role created_at
trading (account)
    text account state why by; time since
backtest_session (id)
    text id backtest_id run_id state; text? reason screen_run_id trade_run_id; time created_at; json orders denials
        verdicts unpriced stale; real cash traded; real? equity exposure; date day
    refs backtest_id run.id; run_id run.id; screen_run_id run.id; trade_run_id run.id
    unique backtest_id day
    index backtest_id; run_id; screen_run_id; trade_run_id
candidate (id)
    text id run_id symbol instrument origin; text? confidence; real score; integer rank
    refs run_id run.id
    unique run_id symbol
    index run_id
episode (run_id)
    text run_id account content; time created_at; json summary; integer number rounds; integer? used_round
    refs run_id run.id
    unique account number
episode_question (run_id, question_id)
    text run_id question_id label baseline_source chosen; real? baseline blind informed
    refs run_id run.id; question_id question.id
    unique run_id label
    index question_id
event_position (id)
    text id account run_id question_id side; time created_at opened_at; time? closed_at; real probability shares
        price fee cost; real? payout
    refs run_id run.id; question_id question.id
    unique run_id question_id
    index account payout; question_id
graph_part (run_id, thread, place, digest)
    text run_id thread place digest form; integer number; blob content
    refs run_id run.id
graph_write (run_id, thread, place, task, ordinal)
    text run_id thread place task checkpoint_id path channel form; integer ordinal; blob content
    refs run_id run.id
graph_memory (namespace, key)
    text namespace key; time created_at updated_at; json value
karma_entry (id)
    text id account voice run_id question_id note; time created_at market_at; real amount
    refs run_id run.id; question_id question.id
    unique account voice question_id
    index run_id
position (account, symbol)
    text account symbol; time filled_at; real quantity average_cost
    refs account account.name
question_pair (id)
    text id first_id second_id state; text? decided_by why; time created_at; time? decided_at; real score; flag
        inverse
    refs first_id question.id; second_id question.id
    unique first_id second_id
    check ck_question_pair_order first_id < second_id
run_document_copy (run_id)
    text run_id state place; text? error; time due_at; time? written_at; integer tries
    refs run_id run.id
    index state
step (id)
    text id run_id kind subject role state; text? parent_id owner error; time created_at due_at; time? lease_until
        sent_at started_at claimed_at finished_at; json payload result; integer pending attempt max_attempts sends
    refs run_id run.id; parent_id step.id
    unique run_id kind subject role
    index due:state due_at; parent_id state; run_id
    check ck_step_pending pending >= 0
attempt (id)
    text id step_id owner outcome; text? reason; time started_at ended_at; integer attempt
    refs step_id step.id
    index step_id
graph_checkpoint (run_id, thread, place, checkpoint_id)
    text run_id thread place checkpoint_id form about_form step_id; text? parent_id; time written_at; integer
        attempt; json lists; blob content about
    refs run_id run.id; step_id step.id
    index step_id
signal (id)
    text id run_id label tool owner state headline basis direction source; text? step_id; time created_at as_of;
        json data subjects; real precision; integer resolved; real? confidence probability
    refs run_id run.id; step_id step.id
    unique run_id label
    index run_id; step_id
turn (id)
    text id run_id step_id role subject provider model status outcome text; text? thread_id thread_reason
        codex_turn_id failure_kind way; time started_at finished_at; real? cost_usd; integer attempt ordinal;
        integer? input_tokens cached_input_tokens output_tokens reasoning_tokens total_tokens; flag kept
    refs run_id run.id; step_id step.id
    index id_tokens:id total_tokens; run_tokens:run_id total_tokens; step_id; thread_id
verdict (id)
    text id run_id candidate_id symbol rating confidence summary; time created_at market_at; json key_risks
        completed missing; json? pooled
    refs run_id run.id; candidate_id candidate.id
    unique run_id symbol
    index candidate_id; run_id; symbol market_at created_at
analysis (id)
    text id run_id candidate_id verdict_id symbol strategy recommendation rating confidence; text? contract turn_id
        headline summary author; time created_at; json figures checks reasons key_risks; json? grounding
    refs run_id run.id; candidate_id candidate.id; verdict_id verdict.id; turn_id turn.id
    unique run_id symbol
    index candidate_id; run_id; turn_id; verdict_id
decision (id)
    text id run_id step_id account status reasoning author; text? turn_id; time created_at; time? processed_at; json
        actions
    refs run_id run.id; step_id step.id; turn_id turn.id
    unique run_id
    index account created_at; step_id; turn_id
forecast (id)
    text id run_id step_id turn_id question_id account voice because author; text? change; time created_at
        market_at; json chain citations; real probability stated stake baseline; integer round; flag booked
    refs run_id run.id; step_id step.id; turn_id turn.id; question_id question.id
    unique run_id voice round question_id
    index account market_at; booked:account booked; question_id account voice; run_id; step_id; turn_id;
        voice:account voice market_at
report (id)
    text id run_id step_id candidate_id turn_id symbol role status summary author; text? verdict confidence
        answer_schema reason; time created_at market_at; json key_risks; json? answer grounding thesis
    refs run_id run.id; step_id step.id; candidate_id candidate.id; turn_id turn.id
    unique run_id symbol role
    index candidate_id; run_id; step_id; symbol market_at created_at; turn_id
screen_hit (id)
    text id run_id step_id turn_id lens symbol instrument confidence thesis; time market_at
    refs run_id run.id; step_id step.id; turn_id turn.id
    unique step_id symbol
    index lens symbol market_at id; market_at; run_id; symbol market_at id; turn_id
tool_call (id)
    text id turn_id tool output; text? rogue; json arguments; real seconds; integer ordinal; flag success has_data
    refs turn_id turn.id
    index turn_id
thesis_question (report_id)
    text report_id question_id; flag watched; date? crossed_on
    refs report_id report.id; question_id question.id
    index question_id; watched
verdict_question (verdict_id)
    text verdict_id question_id
    refs verdict_id verdict.id; question_id question.id
    index question_id
artifact (id)
    text id run_id turn_id call_id kind digest; time created_at; integer size
    refs run_id run.id; turn_id turn.id; call_id tool_call.id
    index call_id; run_id; turn_id
candidate_hit (candidate_id, hit_id)
    text candidate_id hit_id
    refs candidate_id candidate.id; hit_id screen_hit.id
    index hit_id
order (id)
    text id run_id decision_id account symbol action time_in_force state; text? verdict_id side order_type contract
        exit_reason protects denial_code denial_reason measured limit_text broker_order_id message; time created_at
        market_at updated_at; time? sent_at; json? legs plan; real multiplier; real? quantity notional limit_price
        stop_price trail_percent; integer ordinal; integer? fence
    refs run_id run.id; decision_id decision.id; verdict_id verdict.id
    unique decision_id ordinal
    index account created_at ordinal; newest:created_at ordinal; protects; run_id; state:account state market_at;
        symbol created_at ordinal; verdict_id
    check ck_order_verdict verdict_id is not null or state in ('drafted', 'denied') or action in ('close', 'reduce')
signal_citation (id)
    text id run_id forecast_id label stance claim; text? signal_id reason; time created_at; real? copied; integer
        ordinal; flag counts
    refs run_id run.id; forecast_id forecast.id; signal_id signal.id
    unique forecast_id ordinal
    index run_id; signal_id
trader_note (id)
    text id account symbol decision_id action outcome line; time market_at; integer ordinal
    refs decision_id decision.id
    unique decision_id ordinal
    index account symbol market_at id
verdict_report (verdict_id, report_id)
    text verdict_id report_id
    refs verdict_id verdict.id; report_id report.id
    index report_id
approval (id)
    text id state order_id payload_hash; text? decided_by why; time asked_at expires_at; time? decided_at; real
        notional
    refs order_id order.id
    unique order_id
    index state
fill (id)
    text id order_id account symbol side; time created_at filled_at; real quantity price commission
    refs order_id order.id
    index booked:account created_at id; at:account filled_at id; order_id
order_check (order_id)
    text order_id; time market_at; json answers
    refs order_id order.id
preview (id)
    text id order_id payload payload_hash; time created_at priced_at; real price notional
    refs order_id order.id
    unique order_id
    index payload_hash"""
