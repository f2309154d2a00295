"""Tables of orders and money. Runs, verdicts and decisions are in `models/tables/runs.py`; nothing here cascades."""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, Column, Index, UniqueConstraint
from sqlmodel import Field

from chordesk.models.money import DOLLAR
from chordesk.models.tables.columns import Dated, DeskTable, HumanRequest, Identified, Utc, utcnow


def _optional_json() -> Any:
    return Column(JSON(none_as_null=True))


class Order(Dated, table=True):
    """One action on its way from drafted intent to fill. id = uuid5 of decision and ordinal, also the client order id.

    contract: OCC symbol of an option, of which `symbol` is the underlying; multiplier: shares a contract stands for.
    fence: token of the submitter that moved it to `submitting`; sent_at: real time of that move.
    protects: of a protective order, the id of the order that opened or last added to its position; its own id where no
    order of the desk did.

    plan: of an order that opens or adds, a `models.plans.PositionPlan`, which its position keeps; null without one.
    exit_reason: why it closes a position, of `models.plans.ExitReason`; null where the trader or a person gave its own.

    legs: of an order that trades several contracts together, each with contract, side and ratio; then quantity is in
    units, and limit_price is net.

    verdict_id is null only on a denied row (an action on a symbol without a verdict of its run), and where a position
    is given back; where a person closes positions (`desk halt --flatten`), the decision has no turn either.
    """

    __table_args__ = (
        UniqueConstraint("decision_id", "ordinal"),
        Index("ix_order_newest", "created_at", "ordinal"),
        Index("ix_order_account", "account", "created_at", "ordinal"),
        Index("ix_order_state", "account", "state", "market_at"),
        Index("ix_order_symbol", "symbol", "created_at", "ordinal"),
        CheckConstraint(
            "verdict_id is not null or state in ('drafted', 'denied') or action in ('close', 'reduce')",
            name="ck_order_verdict",
        ),
    )

    id: str = Field(primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    decision_id: str = Field(foreign_key="decision.id")
    verdict_id: str | None = Field(default=None, foreign_key="verdict.id", index=True)
    ordinal: int
    account: str
    symbol: str
    action: str
    side: str | None = None
    quantity: float | None = None
    notional: float | None = None
    order_type: str | None = None
    limit_price: float | None = None
    stop_price: float | None = None
    trail_percent: float | None = None
    time_in_force: str = "day"
    contract: str | None = None
    legs: list[dict[str, Any]] | None = Field(default=None, sa_type=JSON)
    multiplier: float = 1.0
    plan: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    exit_reason: str | None = None
    protects: str | None = Field(default=None, index=True)
    state: str
    denial_code: str | None = None
    denial_reason: str | None = None
    measured: str | None = None
    limit_text: str | None = None
    broker_order_id: str | None = None
    fence: int | None = None
    sent_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    message: str | None = None
    market_at: dt.datetime = Field(sa_type=Utc)
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class Preview(Identified, Dated, table=True):
    """The canonical form of an order as it would be sent, and its SHA-256. notional in the account's currency; currency
    and rate as of Fill; duties: (name, amount) of what the order would pay beside commission."""

    order_id: str = Field(foreign_key="order.id", unique=True)
    payload: str
    payload_hash: str = Field(index=True)
    price: float
    priced_at: dt.datetime = Field(sa_type=Utc)
    notional: float
    currency: str | None = None
    rate: float | None = None
    rate_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    rate_source: str | None = None
    duties: list[list[Any]] | None = Field(default=None, sa_column=_optional_json())


class OrderCheck(DeskTable, table=True):
    """What each rule answered when the order was last checked, at its preview or before it was sent. market_at: market
    time; answers: as `tools.orders.checking.RuleAnswer`."""

    order_id: str = Field(primary_key=True, foreign_key="order.id")
    market_at: dt.datetime = Field(sa_type=Utc)
    answers: list[dict[str, Any]] = Field(sa_type=JSON)


class Fill(Identified, Dated, table=True):
    """Shares that changed hands; filled_at is market time.

    currency: of the price, null for the account's; rate: of one unit of it in the account's currency, of a time and a
    source. commission and duties, (name, amount) each, are in the account's currency.
    """

    __table_args__ = (
        Index("ix_fill_booked", "account", "created_at", "id"),
        Index("ix_fill_at", "account", "filled_at", "id"),
    )

    order_id: str = Field(foreign_key="order.id", index=True)
    account: str
    symbol: str
    side: str
    quantity: float
    price: float
    commission: float
    filled_at: dt.datetime = Field(sa_type=Utc)
    currency: str | None = None
    rate: float | None = None
    rate_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    rate_source: str | None = None
    duties: list[list[Any]] | None = Field(default=None, sa_column=_optional_json())


class BookedSettlement(Dated, table=True):
    """One booked leg of an option event. quantity is signed, settled_at market time; currency and rate as of Fill."""

    __tablename__ = "settlement"
    __table_args__ = (Index("ix_settlement_at", "account", "settled_at", "id"),)

    account: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    kind: str
    symbol: str
    quantity: float
    price: float
    settled_at: dt.datetime = Field(sa_type=Utc)
    currency: str | None = None
    rate: float | None = None
    rate_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    rate_source: str | None = None


class BooksMark(DeskTable, table=True):
    """An account's books up to a fill or settlement in the order of their booking, so that nobody has to go through
    what was booked before. moved: by how much they changed cash, exact; held: exact quantity and average cost by
    symbol, and of another currency than the account's that currency and the cost in the account's; market_at: latest
    market time of what they hold."""

    account: str = Field(primary_key=True)
    booked_at: dt.datetime = Field(primary_key=True, sa_type=Utc)
    id: str
    moved: str
    held: dict[str, list[str]] = Field(sa_type=JSON)
    market_at: dt.datetime = Field(sa_type=Utc)


class Account(DeskTable, table=True):
    """The ledger's head: paper and live never share a row. opening_cash: the balance before any fill. currency: the one
    that all its money is counted in."""

    name: str = Field(primary_key=True)
    cash: float
    opening_cash: float = 0.0
    opened_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    currency: str = Field(default=DOLLAR, sa_column_kwargs={"server_default": DOLLAR})


class Position(DeskTable, table=True):
    """Shares held; quantity is negative when short, and the row is deleted when it is zero. average_cost is in
    `currency`, null for the account's; cost_base: the same in the account's, at the rates of the purchases."""

    account: str = Field(primary_key=True, foreign_key="account.name")
    symbol: str = Field(primary_key=True)
    quantity: float
    average_cost: float
    filled_at: dt.datetime = Field(sa_type=Utc)
    currency: str | None = None
    cost_base: float | None = None


class Approval(HumanRequest, table=True):
    """A person's answer to one order as previewed; bound to the payload hash, so an altered order needs another."""

    order_id: str = Field(foreign_key="order.id", unique=True)
    payload_hash: str
    notional: float


class Submitter(DeskTable, table=True):
    """One row an account: the token of the only process that may send orders. Tokens only grow."""

    account: str = Field(primary_key=True)
    token: int
    owner: str
    taken_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class Trading(DeskTable, table=True):
    """The trading state of an account, with its author and reason; no row means active."""

    account: str = Field(primary_key=True)
    state: str
    why: str
    by: str
    since: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class Mandate(DeskTable, table=True):
    """A signed document that lets a broker move real money, until it is disarmed."""

    version: int = Field(primary_key=True)
    broker: str = Field(index=True)
    document: str
    signature: str
    armed_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    disarmed_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    disarmed_by: str | None = None


class EquityMark(DeskTable, table=True):
    """An account's equity on a session day (market's date): first and last observation, and the highest so far. rates:
    by currency the rate that the last one was valued at, its time and its source."""

    account: str = Field(primary_key=True)
    day: dt.date = Field(primary_key=True)
    opening: float
    last: float
    high_water: float
    updated_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    rates: dict[str, list[Any]] | None = Field(default=None, sa_column=_optional_json())


class Reconciliation(Identified, table=True):
    """One comparison of an account with its broker: time, process and differences."""

    __table_args__ = (Index("ix_reconciliation_account", "account", "at", "id"),)

    account: str
    at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    owner: str
    agreed: bool
    differences: list[dict[str, Any]] = Field(sa_type=JSON)


class AuditAnchor(DeskTable, table=True):
    """Head and length of an audit chain, so that a cut-off tail shows. One row for each data folder that wrote lines.

    count in lines, size in bytes of the file with the last of them; place: host and folder of the file. verified_...:
    the same of the last line that a check found whole with all before it, null before the first.
    """

    chain: str = Field(primary_key=True)
    place: str
    count: int
    head: str
    size: int = Field(sa_type=BigInteger)
    at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    verified_count: int | None = None
    verified_head: str | None = None
    verified_size: int | None = Field(default=None, sa_type=BigInteger)
    verified_at: dt.datetime | None = Field(default=None, sa_type=Utc)


class TraderNote(Identified, table=True):
    """One line for each action of a decision on a symbol: the action, its result and the reason."""

    __table_args__ = (
        UniqueConstraint("decision_id", "ordinal"),
        Index("ix_trader_note_account", "account", "symbol", "market_at", "id"),
    )

    account: str
    symbol: str
    decision_id: str = Field(foreign_key="decision.id")
    ordinal: int
    action: str
    outcome: str
    line: str
    market_at: dt.datetime = Field(sa_type=Utc)


class OptionMark(Dated, table=True):
    """Figures of a symbol's chain of 7 to 60 days, as a source gave them on a day; None where it gave none. The last
    mark of a day stays."""

    symbol: str = Field(primary_key=True)
    day: dt.date = Field(primary_key=True)
    source: str = Field(primary_key=True)
    at_the_money_iv: float | None = None
    put_volume: float | None = None
    call_volume: float | None = None
    put_open_interest: float | None = None
    call_open_interest: float | None = None
