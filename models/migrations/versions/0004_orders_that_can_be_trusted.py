"""orders that can be trusted

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _audit_anchor()
    _equity_mark()
    _mandate()
    _reconciliation()
    _submitter()
    _trading()
    _trader_note()
    _approval()
    _order()
    _account()
    _settlement()
    _persons_orders()


def downgrade() -> None:
    # Fails while there are orders that a person gave: they have neither verdict nor turn.
    with op.batch_alter_table("decision", schema=None) as batch_op:
        batch_op.alter_column("turn_id", existing_type=sa.String(), nullable=False)
    _verdict_rule("verdict_id is not null or state in ('drafted', 'denied')")

    op.drop_table("settlement")
    with op.batch_alter_table("account", schema=None) as batch_op:
        batch_op.drop_column("opening_cash")

    with op.batch_alter_table("order", schema=None) as batch_op:
        batch_op.drop_column("sent_at")
        batch_op.drop_column("fence")
        batch_op.drop_column("multiplier")
        batch_op.drop_column("contract")

    with op.batch_alter_table("approval", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_approval_state"))

    op.drop_table("approval")
    with op.batch_alter_table("trader_note", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_trader_note_symbol"))
        batch_op.drop_index(batch_op.f("ix_trader_note_account"))

    op.drop_table("trader_note")
    op.drop_table("trading")
    op.drop_table("submitter")
    with op.batch_alter_table("reconciliation", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_reconciliation_account"))

    op.drop_table("reconciliation")
    with op.batch_alter_table("mandate", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_mandate_broker"))

    op.drop_table("mandate")
    op.drop_table("equity_mark")
    op.drop_table("audit_anchor")


def _audit_anchor() -> None:
    op.create_table(
        "audit_anchor",
        sa.Column("chain", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("head", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("chain", name=op.f("pk_audit_anchor")),
    )


def _equity_mark() -> None:
    op.create_table(
        "equity_mark",
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("opening", sa.Float(), nullable=False),
        sa.Column("last", sa.Float(), nullable=False),
        sa.Column("high_water", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("account", "day", name=op.f("pk_equity_mark")),
    )


def _mandate() -> None:
    op.create_table(
        "mandate",
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("broker", sa.String(), nullable=False),
        sa.Column("document", sa.String(), nullable=False),
        sa.Column("signature", sa.String(), nullable=False),
        sa.Column("armed_at", sa.DateTime(), nullable=False),
        sa.Column("disarmed_at", sa.DateTime(), nullable=True),
        sa.Column("disarmed_by", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_mandate")),
    )
    with op.batch_alter_table("mandate", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_mandate_broker"), ["broker"], unique=False)


def _reconciliation() -> None:
    op.create_table(
        "reconciliation",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("agreed", sa.Boolean(), nullable=False),
        sa.Column("differences", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reconciliation")),
    )
    with op.batch_alter_table("reconciliation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_reconciliation_account"), ["account"], unique=False)


def _submitter() -> None:
    op.create_table(
        "submitter",
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("taken_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("account", name=op.f("pk_submitter")),
    )


def _trading() -> None:
    op.create_table(
        "trading",
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("since", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("account", name=op.f("pk_trading")),
    )


def _trader_note() -> None:
    op.create_table(
        "trader_note",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("decision_id", sa.String(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("line", sa.String(), nullable=False),
        sa.Column("market_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["decision_id"], ["decision.id"], name=op.f("fk_trader_note_decision_id_decision")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trader_note")),
        sa.UniqueConstraint("decision_id", "ordinal", name=op.f("uq_trader_note_decision_id_ordinal")),
    )
    with op.batch_alter_table("trader_note", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_trader_note_account"), ["account"], unique=False)
        batch_op.create_index(batch_op.f("ix_trader_note_symbol"), ["symbol"], unique=False)


def _approval() -> None:
    op.create_table(
        "approval",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("order_id", sa.String(), nullable=False),
        sa.Column("payload_hash", sa.String(), nullable=False),
        sa.Column("notional", sa.Float(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("asked_at", sa.DateTime(), nullable=False),
        sa.Column("expires_at", sa.DateTime(), nullable=False),
        sa.Column("decided_at", sa.DateTime(), nullable=True),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("why", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["order_id"], ["order.id"], name=op.f("fk_approval_order_id_order")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval")),
        sa.UniqueConstraint("order_id", name=op.f("uq_approval_order_id")),
    )
    with op.batch_alter_table("approval", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_approval_state"), ["state"], unique=False)


def _order() -> None:
    with op.batch_alter_table("order", schema=None) as batch_op:
        batch_op.add_column(sa.Column("contract", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("multiplier", sa.Float(), nullable=False, server_default="1"))
        batch_op.add_column(sa.Column("fence", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("sent_at", sa.DateTime(), nullable=True))


def _settlement() -> None:
    op.create_table(
        "settlement",
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("symbol", sa.String(), nullable=False),
        sa.Column("quantity", sa.Float(), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("settled_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("account", "id", name=op.f("pk_settlement")),
    )


def _account() -> None:
    """An account that has traded began with what it has and what its fills have moved."""
    with op.batch_alter_table("account", schema=None) as batch_op:
        batch_op.add_column(sa.Column("opening_cash", sa.Float(), nullable=False, server_default="0"))
    op.execute(
        """
        update account set opening_cash = cash + coalesce((
            select sum(case when fill.side = 'buy' then 1 else -1 end * fill.quantity * fill.price + fill.commission)
            from fill where fill.account = account.name), 0)
        """
    )


def _persons_orders() -> None:
    """What a person closes needs no verdict and no model's turn."""
    with op.batch_alter_table("decision", schema=None) as batch_op:
        batch_op.alter_column("turn_id", existing_type=sa.String(), nullable=True)
    _verdict_rule("verdict_id is not null or state in ('drafted', 'denied') or action = 'close'")


def _verdict_rule(rule: str) -> None:
    with op.batch_alter_table("order", schema=None) as batch_op:
        batch_op.drop_constraint(op.f("ck_order_verdict"), type_="check")
        batch_op.create_check_constraint(op.f("ck_order_verdict"), rule)
