"""retention: indexes by which the rows that refer to a row are found before it is deleted

Revision ID: 0024
Revises: 0023
"""

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

COLUMNS = (
    ("run", "parent_run_id"),
    ("screen_hit", "turn_id"),
    ("candidate_hit", "hit_id"),
    ("report", "step_id"),
    ("report", "turn_id"),
    ("verdict", "candidate_id"),
    ("verdict_report", "report_id"),
    ("analysis", "candidate_id"),
    ("analysis", "turn_id"),
    ("decision", "step_id"),
    ("decision", "turn_id"),
    ("artifact", "call_id"),
    ("order", "verdict_id"),
    ("signal", "step_id"),
    ("forecast", "step_id"),
    ("graph_checkpoint", "step_id"),
    ("backtest_session", "run_id"),
    ("backtest_session", "screen_run_id"),
    ("backtest_session", "trade_run_id"),
)


def upgrade() -> None:
    for table, column in COLUMNS:
        op.create_index(op.f(f"ix_{table}_{column}"), table, [column])


def downgrade() -> None:
    for table, column in reversed(COLUMNS):
        op.drop_index(op.f(f"ix_{table}_{column}"), table)
