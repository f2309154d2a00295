"""The tables of orders and money. What an order rests on is in `models/tables.py`; nothing here cascades."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import CheckConstraint, UniqueConstraint
from sqlmodel import Field, SQLModel

from models.columns import new_id, utc_column, utcnow


class Order(SQLModel, table=True):
    """One action on its way from drafted intent to fill. id = uuid5 of decision and ordinal, also the client order id.

    verdict_id is null only on a denied row (an action on a symbol without a verdict of its run).
    """

    __tablename__ = "order"
    __table_args__ = (
        UniqueConstraint("decision_id", "ordinal"),
        CheckConstraint("verdict_id is not null or state in ('drafted', 'denied')", name="ck_order_verdict"),
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
    state: str
    denial_code: str | None = None
    denial_reason: str | None = None
    measured: str | None = None
    limit_text: str | None = None
    broker_order_id: str | None = None
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


class Account(SQLModel, table=True):
    """The ledger's head: paper and live never share a row."""

    __tablename__ = "account"

    name: str = Field(primary_key=True)
    cash: float
    opened_at: dt.datetime = Field(default_factory=utcnow, sa_column=utc_column())


class Position(SQLModel, table=True):
    """Shares held; quantity is negative when short, and the row goes when it is zero."""

    __tablename__ = "position"

    account: str = Field(primary_key=True, foreign_key="account.name")
    symbol: str = Field(primary_key=True)
    quantity: float
    average_cost: float
    filled_at: dt.datetime = Field(sa_column=utc_column())
