"""People who are paired with the desk, what they wrote, and what is written to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "messengers_bot",
        sa.Column("messenger", sa.String(), nullable=False),
        sa.Column("name", sa.String()),
        sa.Column("next_update", sa.BigInteger()),
        sa.Column("polled_at", sa.DateTime()),
        sa.Column("error", sa.String()),
        sa.Column("error_at", sa.DateTime()),
        sa.PrimaryKeyConstraint("messenger", name="pk_messengers_bot"),
    )
    op.create_table(
        "messengers_code",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("messenger", sa.String(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("quiet", sa.String()),
        sa.Column("wake", sa.Boolean(), nullable=False),
        sa.Column("made_by", sa.String(), nullable=False),
        sa.Column("expires_at", sa.DateTime(), nullable=False),
        sa.Column("used_at", sa.DateTime()),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_messengers_code"),
    )
    op.create_table(
        "messengers_person",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("messenger", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("chat", sa.String(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("quiet", sa.String()),
        sa.Column("wake", sa.Boolean(), nullable=False),
        sa.Column("made_by", sa.String(), nullable=False),
        sa.Column("muted_until", sa.DateTime()),
        sa.Column("blocked_at", sa.DateTime()),
        sa.Column("revoked_at", sa.DateTime()),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_messengers_person"),
    )
    op.create_index("ix_messengers_person_name", "messengers_person", ["name"])
    op.create_table(
        "messengers_update",
        sa.Column("messenger", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("user", sa.String()),
        sa.Column("what", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("messenger", "number", name="pk_messengers_update"),
    )
    op.create_index("ix_messengers_update_at", "messengers_update", ["at"])
    op.create_table(
        "messengers_message",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("person_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("buttons", sa.JSON(), nullable=False),
        sa.Column("target", sa.String()),
        sa.Column("card", sa.String()),
        sa.Column("remote", sa.String()),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime()),
        sa.Column("error", sa.String()),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_messengers_message"),
        sa.ForeignKeyConstraint(
            ["person_id"], ["messengers_person.id"], name="fk_messengers_message_person_id_messengers_person"
        ),
    )
    for name in ("person_id", "target", "state"):
        op.create_index(f"ix_messengers_message_{name}", "messengers_message", [name])
    op.create_table(
        "messengers_button",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("person_id", sa.String(), nullable=False),
        sa.Column("message_id", sa.String(), nullable=False),
        sa.Column("act", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("shown", sa.String(), nullable=False),
        sa.Column("used_at", sa.DateTime()),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_messengers_button"),
        sa.ForeignKeyConstraint(
            ["person_id"], ["messengers_person.id"], name="fk_messengers_button_person_id_messengers_person"
        ),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messengers_message.id"], name="fk_messengers_button_message_id_messengers_message"
        ),
    )


def downgrade() -> None:
    for name in ("button", "message", "update", "person", "code", "bot"):
        op.drop_table(f"messengers_{name}")
