"""The tables of orders and money. What an order rests on is in `models/tables.py`; nothing here cascades."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, UniqueConstraint
from sqlmodel import Field, SQLModel

from models.columns import json_column, new_id, utc_column, utcnow


class Order(SQLModel, table=True):
    """One action on its way from drafted intent to fill. id = uuid5 of decision and ordinal, also the client order id.

    contract: OCC symbol of an option, of which `symbol` is the underlying; multiplier: shares a contract stands for.
    fence: token of the submitter that moved it to `submitting`; sent_at: real time of that move.

    verdict_id is null only on a denied row (an action on a symbol without a verdict of its run), and where a person
    closes positions (`desk halt --flatten`): such a decision has no turn either.
    """

    __tablename__ = "order"
    __table_args__ = (
        UniqueConstraint("decision_id", "ordinal"),
        CheckConstraint(
            "verdict_id is not null or state in ('drafted', 'denied') or action = 'close'", name="ck_order_verdict"
        ),
    )

    id: str = Field(primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    decision_id: str = Field(foreign_key="decision.id")
    verdict_id: str | None = Field(default=None, foreign_key="verdict.id")
    ordinal: int
    account: str = Field(index=True)
    symbol: str = Field(index=True)
    action: str
    side: str | None = None
    quantity: float | None = None
    notional: float | None = None
    order_type: str | None = None
    limit_price: float | None = None
    contract: str | None = None
    multiplier: float = 1.0
    state: str
    denial_code: str | None = None
    denial_reason: str | None = None
    measured: str | None = None
    limit_text: str | None = None
    broker_order_id: str | None = None
    fence: int | None = None
    sent_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    message: str | None = None
    market_at: dt.datetime = Field(sa_column=utc_column())
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Preview(SQLModel, table=True):
    """The canonical form of an order as it would be sent, and its SHA-256."""

    __tablename__ = "preview"

    id: str = Field(default_factory=new_id, primary_key=True)
    order_id: str = Field(foreign_key="order.id", unique=True)
    payload: str
    payload_hash: str = Field(index=True)
    price: float
    priced_at: dt.datetime = Field(sa_column=utc_column())
    notional: float
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Fill(SQLModel, table=True):
    """Shares that changed hands; filled_at is market time."""

    __tablename__ = "fill"

    id: str = Field(default_factory=new_id, primary_key=True)
    order_id: str = Field(foreign_key="order.id", index=True)
    account: str = Field(index=True)
    symbol: str
    side: str
    quantity: float
    price: float
    commission: float
    filled_at: dt.datetime = Field(sa_column=utc_column())
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class BookedSettlement(SQLModel, table=True):
    """One leg of what became of an option position without an order; quantity is signed, settled_at is market time."""

    __tablename__ = "settlement"

    account: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    kind: str
    symbol: str
    quantity: float
    price: float
    settled_at: dt.datetime = Field(sa_column=utc_column())
    created_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Account(SQLModel, table=True):
    """The ledger's head: paper and live never share a row. opening_cash: what it began with, before any fill."""

    __tablename__ = "account"

    name: str = Field(primary_key=True)
    cash: float
    opening_cash: float = 0.0
    opened_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Position(SQLModel, table=True):
    """Shares held; quantity is negative when short, and the row goes when it is zero."""

    __tablename__ = "position"

    account: str = Field(primary_key=True, foreign_key="account.name")
    symbol: str = Field(primary_key=True)
    quantity: float
    average_cost: float
    filled_at: dt.datetime = Field(sa_column=utc_column())


class Approval(SQLModel, table=True):
    """A person's answer to one order as previewed; bound to the payload hash, so an altered order needs another."""

    __tablename__ = "approval"

    id: str = Field(default_factory=new_id, primary_key=True)
    order_id: str = Field(foreign_key="order.id", unique=True)
    payload_hash: str
    notional: float
    state: str = Field(index=True)
    asked_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
    expires_at: dt.datetime = Field(sa_column=utc_column())
    decided_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    decided_by: str | None = None
    why: str | None = None


class Submitter(SQLModel, table=True):
    """One row an account: the token of the only process that may send orders. Tokens only grow."""

    __tablename__ = "submitter"

    account: str = Field(primary_key=True)
    token: int
    owner: str
    taken_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Trading(SQLModel, table=True):
    """What an account may do, who said so and why; no row means active."""

    __tablename__ = "trading"

    account: str = Field(primary_key=True)
    state: str
    why: str
    by: str
    since: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Mandate(SQLModel, table=True):
    """What a person allows a broker that moves real money: a signed document, and until when it was not taken back."""

    __tablename__ = "mandate"

    version: int = Field(primary_key=True)
    broker: str = Field(index=True)
    document: str
    signature: str
    armed_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
    disarmed_at: dt.datetime | None = Field(default=None, sa_column=utc_column(nullable=True))
    disarmed_by: str | None = None


class EquityMark(SQLModel, table=True):
    """An account's equity on a session day (market's date): at its first look, the last one, and the highest so far."""

    __tablename__ = "equity_mark"

    account: str = Field(primary_key=True)
    day: dt.date = Field(primary_key=True)
    opening: float
    last: float
    high_water: float
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Reconciliation(SQLModel, table=True):
    """When an account was last compared with its broker, by whom, and what was found."""

    __tablename__ = "reconciliation"

    id: str = Field(default_factory=new_id, primary_key=True)
    account: str = Field(index=True)
    at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())
    owner: str
    agreed: bool
    differences: list[dict[str, Any]] = Field(sa_column=json_column())


class AuditAnchor(SQLModel, table=True):
    """Head and length of an audit chain, so that a cut-off tail shows. One row a data folder that wrote lines.

    count in lines, size in bytes of the file with the last of them; place: host and folder of the file.
    """

    __tablename__ = "audit_anchor"

    chain: str = Field(primary_key=True)
    place: str
    count: int
    head: str
    size: int = Field(sa_type=BigInteger)
    at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class TraderNote(SQLModel, table=True):
    """One line a decision on a symbol: what was wanted, what became of it, and why."""

    __tablename__ = "trader_note"
    __table_args__ = (UniqueConstraint("decision_id", "ordinal"),)

    id: str = Field(default_factory=new_id, primary_key=True)
    account: str = Field(index=True)
    symbol: str = Field(index=True)
    decision_id: str = Field(foreign_key="decision.id")
    ordinal: int
    action: str
    outcome: str
    line: str
    market_at: dt.datetime = Field(sa_column=utc_column())
