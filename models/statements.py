"""What a file of holdings says, read and in plain form, before anything of it is kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

Kind = Literal["share", "fund", "option", "cash", "crypto", "other"]


@dataclass(frozen=True, slots=True)
class Holding:
    """One position. quantity is negative when short, and of cash its amount; price, value and cost are in `currency`,
    value and cost of the whole position. Only what the file states is there."""

    line: int  # of the file
    name: str
    kind: Kind
    quantity: Decimal
    currency: str
    symbol: str | None = None  # as the desk writes it: None where the file has an ISIN or a name alone
    isin: str | None = None
    price: Decimal | None = None
    value: Decimal | None = None
    cost: Decimal | None = None
    rate: Decimal | None = None  # US dollars for one unit of `currency`

    @property
    def key(self) -> str:
        """What two rows of one holding share."""
        return self.symbol or self.isin or self.name

    @property
    def lacks_rate(self) -> bool:
        """Whether what the file states of it cannot be turned into another currency."""
        return self.rate is None and (self.kind == "cash" or self.value is not None or self.price is not None)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that is no holding, and why."""

    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Total:
    """A sum that the file states, and what its rows come to."""

    what: str
    currency: str
    stated: Decimal
    found: Decimal
    line: int


@dataclass(frozen=True, slots=True)
class Statement:
    """One account of a file. number: the broker's own for the account, empty where the file has none."""

    number: str
    holdings: tuple[Holding, ...]
    as_of: dt.date | None = None
    label: str = ""  # a name that the file gives the account
    totals: tuple[Total, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a source of holdings answered: the accounts that its keys may see, each as of its day. notes: what a person
    should know, such as holdings that were left out and why."""

    statements: tuple[Statement, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """A whole file, or a source's answer. source: the key of its format, shown: its name for people. summed: rows of
    activity behind the holdings, None of a file of positions."""

    source: str
    shown: str
    digest: str
    statements: tuple[Statement, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    summed: int | None = None
    home: str | None = None  # the folder of the desk whose account it is

    @property
    def rows(self) -> int:
        return sum(len(one.holdings) for one in self.statements)


@dataclass(slots=True)
class Draft:
    """An account while its rows are read."""

    number: str = ""
    label: str = ""
    as_of: dt.date | None = None
    holdings: list[Holding] = field(default_factory=list)
    totals: list[Total] = field(default_factory=list)

    def done(self, as_of: dt.date | None = None) -> Statement:
        return Statement(self.number, merged(self.holdings), as_of or self.as_of, self.label, tuple(self.totals))


def merged(rows: Sequence[Holding]) -> tuple[Holding, ...]:
    """Return the rows with the lots of one holding as one. A price or cost that a lot lacks is not known of the sum."""
    found: dict[tuple[str, str, str], Holding] = {}
    for row in rows:
        key = (row.key, row.kind, row.currency)
        before = found.get(key)
        found[key] = row if before is None else _sum(before, row)
    return tuple(row for row in found.values() if row.quantity or row.value)


def _sum(one: Holding, other: Holding) -> Holding:
    price = one.price if one.price == other.price else None
    return replace(
        one,
        quantity=one.quantity + other.quantity,
        price=price,
        value=_plus(one.value, other.value),
        cost=_plus(one.cost, other.cost),
    )


def _plus(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return None if one is None or other is None else one + other
