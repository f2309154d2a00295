"""Tables of outside accounts: what somebody holds at other brokers, which the desk looks at and never trades."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Field

from chordesk.models.tables.columns import Dated, DeskTable, Identified


class HoldingsAccount(Dated, table=True):
    """An outside account.

    number_digest: scrypt of the broker's account number with `salt`, hexadecimal; None where a file names no number.
    home: of a linked account, the data folder of the desk that it is read from.
    """

    name: str = Field(primary_key=True)
    source: str
    number_digest: str | None = None
    salt: str
    home: str | None = None


class HoldingsSnapshot(Identified, Dated, table=True):
    """What an account held at the end of a day. The newest one counts; the one before it is kept to compare.

    digest: SHA-256 of the file. summed: rows of activity that the holdings are a sum of; None of a file of positions.
    total: what the file itself states, in `currency`; None where it states none. seal: SHA-256 of its day and rows as
    they were written; None of a snapshot of before there were any.
    """

    account: str = Field(foreign_key="holdings_account.name", index=True)
    as_of: dt.date
    source: str
    digest: str
    summed: int | None = None
    total: str | None = None
    seal: str | None = None
    currency: str | None = None


class HoldingsPosition(DeskTable, table=True):
    """A row of a snapshot. Quantity, price, value and cost are decimals as texts, exact; value, cost and price are in
    `currency`, cost being of the whole position. rate: US dollars for one unit of `currency`, where the file or the
    person who imported it stated one."""

    snapshot_id: str = Field(primary_key=True, foreign_key="holdings_snapshot.id")
    line: int = Field(primary_key=True)
    symbol: str | None = None
    isin: str | None = None
    name: str
    kind: str
    quantity: str
    price: str | None = None
    value: str | None = None
    cost: str | None = None
    currency: str
    rate: str | None = None


class HoldingsTicker(Dated, table=True):
    """What a name or an ISIN of files is called here, as `desk holdings map` said."""

    written: str = Field(primary_key=True)
    ticker: str
