"""Holdings as the sum of what happened, from the account's first day on.

A sum is right only if nothing is missing, and that shows: a quantity that falls below zero, or a first row of a holding
that is a sale, says that rows before it are not in the file. Such a file is refused, and so is one with a kind of row
that nobody here knows. Rows of one day count together, since files with days alone have a sale before its purchase.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from chordesk.models.market import parse_contract
from chordesk.models.statements import Draft, Holding, Kind
from chordesk.models.text import one_line
from chordesk.tools.holdings.formats.format import MOST_SHARES, MOST_UNITS, Parsed, isin_of
from chordesk.tools.holdings.names import ticker
from chordesk.tools.holdings.sheets import Columns, DayOrder, Row, Sheet, Table, find, understood

DUST = Decimal("1e-9")  # what rounding leaves of a holding that was sold


@dataclass(frozen=True, slots=True)
class Thing:
    """What is bought and sold. currency: of its price. may_be_short: a written contract is a first row that sells."""

    key: str
    name: str
    kind: Kind
    currency: str
    symbol: str | None = None
    isin: str | None = None
    may_be_short: bool = False


@dataclass(frozen=True, slots=True)
class _Move:
    day: dt.date
    line: int
    thing: Thing
    quantity: Decimal
    closes: bool


@dataclass(slots=True)
class Ledger:
    """One account of a file while its rows are read. rows: how many changed a holding or the cash."""

    sheet: Sheet
    moves: list[_Move] = field(default_factory=list)
    cash: dict[str, Decimal] = field(default_factory=dict)
    rows: int = 0
    last: dt.date | None = None

    def move(
        self,
        row: Row,
        day: dt.date | None,
        thing: Thing | None,
        quantity: Decimal | None,
        *,
        closes: bool = False,
    ) -> None:
        """Add a change of a holding; None is a problem that was said already, but for a quantity of none. closes: it
        ends what is held or written, and begins nothing."""
        if quantity is None:
            self.sheet.error(row, "moves a holding and has no quantity")
        if day is None or thing is None or not quantity:
            return
        if abs(quantity) >= MOST_UNITS.get(thing.kind, MOST_SHARES):
            self.sheet.error(row, f"a quantity of {quantity:,f} is too large to be meant")
            return
        self.seen(day)
        self.moves.append(_Move(day, row.line, thing, quantity, closes))

    def seen(self, day: dt.date | None) -> None:
        """Count a row that changes no holding."""
        self.rows += 1
        if day is not None:
            self.last = day if self.last is None else max(self.last, day)

    def pay(self, currency: str, amount: Decimal | None) -> None:
        self.cash[currency] = self.cash.get(currency, Decimal(0)) + (amount or Decimal(0))

    def done(self, number: str = "", label: str = "") -> Draft:
        """Return the account as of its last row, or of the later day that a person says."""
        said = self.sheet.hints.as_of
        as_of = said if said is not None and self.last is not None and said > self.last else self.last
        draft = Draft(number, label, as_of)
        for rows in self._by_thing().values():
            if (held := self._sum(rows, as_of)) is not None:
                draft.holdings.append(held)
        for currency, amount in self.cash.items():
            if amount < 0:
                self.sheet.notes.append(
                    f"cash in {currency} is left out: its rows come to less than nothing, so that some are missing"
                )
            elif amount:
                draft.holdings.append(Holding(0, "Cash", "cash", amount, currency, value=amount))
        return draft

    def _by_thing(self) -> dict[str, list[_Move]]:
        found: defaultdict[str, list[_Move]] = defaultdict(list)
        for move in sorted(self.moves, key=lambda one: (one.day, one.closes, one.quantity < 0, one.line)):
            found[move.thing.key].append(move)
        return found

    def _sum(self, rows: Sequence[_Move], as_of: dt.date | None) -> Holding | None:
        total, first, last = Decimal(0), rows[0], rows[-1]
        for move in rows:
            total += move.quantity
            beyond = move.closes and total * move.quantity > 0 and abs(total) > DUST
            if beyond or (total < -DUST and not move.thing.may_be_short):
                self._refuse(move, total, is_first=move is first)
                return None
        thing = last.thing
        contract = parse_contract(thing.symbol) if thing.symbol else None
        if abs(total) <= DUST or (contract is not None and as_of is not None and contract.expiry < as_of):
            return None
        return Holding(last.line, thing.name, thing.kind, total, thing.currency, thing.symbol, thing.isin)

    def _refuse(self, move: _Move, total: Decimal, *, is_first: bool) -> None:
        name = one_line(move.thing.symbol or move.thing.name, 40)
        first = f"the first row of {name} {'ends it' if move.closes else 'is a sale'}"
        why = first if is_first else f"{name} would be {total:f}"
        self.sheet.error(move.line, f"{why}: rows before it are not in the file; export it from the first day on")


def thing_of(
    table: Table,
    row: Row,
    *,
    currency: str,
    name: str = "",
    symbol: str = "",
    code: str = "",
    kind: Kind = "share",
    contract: str | None = None,
) -> Thing | None:
    """Return what a row is about, by its ISIN where it has one. None where it names nothing, which is a problem now."""
    isin = isin_of(table.sheet, row, code) if code.strip() else None
    known = contract or (ticker(symbol, currency) if kind in ("share", "fund") else None)
    key = isin or contract or symbol.strip().upper() or name
    if not key:
        table.sheet.error(row, "names no symbol and no ISIN")
        return None
    return Thing(key, name or symbol, kind, currency, known, isin, contract is not None)


def is_its_amount(
    table: Table,
    row: Row,
    *,
    quantity: Decimal | None,
    price: Decimal | None,
    amount: Decimal | None,
    factors: Sequence[Decimal] = (Decimal(1),),
    charges: Decimal = Decimal(0),
    share: Decimal = Decimal("0.005"),
) -> bool:
    """Whether quantity x price is the amount of a row, which is a problem now where it is not. What a row does not
    state is not compared.

    With q, p and a factor f (a contract's size, a rate), the product is q p f. p is rounded to a last place u, so that
    the product may be off by q f u / 2; the amount is rounded to a hundredth; charges are in it or not; and a share of
    it is left for fees and spreads without a column. A decimal mark that was misread makes a factor of ten, far beyond.
    """
    if not quantity or not price or not amount or not factors:
        return True
    last = Decimal(1).scaleb(int(price.as_tuple().exponent))
    for factor in factors:
        product = abs(quantity * price * factor)
        rounding = abs(quantity) * factor * min(last, Decimal("0.01")) / 2 + Decimal("0.02")
        if abs(product - abs(amount)) <= rounding + abs(charges) + abs(amount) * share:
            return True
    shown = f"{abs(quantity):f} x {price:f}" + (f" x {factors[0]:.6g}" if factors[0] != 1 else "")
    product = abs(quantity * price * factors[0])
    table.sheet.error(row, f"{shown} is {product:,.2f}, and the amount is {abs(amount):,.2f}")
    return False


def activity_table(
    sheet: Sheet, wanted: Columns, *, days: DayOrder | None = None, least: int = 2, most: int = 20
) -> tuple[Table, Parsed]:
    """Return (the table of a file with its cells in plain form, what will be made of it). days: the order in which the
    broker always writes days. least: cells of a row; shorter ones are words below the table."""
    at, table = find(sheet, wanted, most=most) or (0, None)
    assert table is not None
    if days is not None and sheet.hints.days is None:
        sheet.hints = replace(sheet.hints, days=days)
    out = Parsed(summed=0)
    for row in sheet.rows[at + 1 :]:
        (table.rows.append(row) if len(row.cells) >= least else out.leave(row, "a line of words, no row of the table"))
    understood([table])
    return table, out


def each_row(table: Table, out: Parsed, identity: str = "") -> Iterator[Row]:
    """Yield the rows that are whole, each once: files of periods that overlap have some twice. identity: our column
    with a row's own id."""
    known: dict[tuple[str, ...], int] = {}
    for row in table.rows:
        if not table.whole(row):
            continue
        if identity and table.raw(row, identity).strip():
            cells = tuple(cell.strip() for cell in row.cells)
            if (first := known.setdefault(cells, row.line)) != row.line:
                out.leave(row, f"row {first} again")
                continue
        yield row


def unknown_kind(table: Table, row: Row, ours: str) -> None:
    written = one_line(table.raw(row, ours), 40)
    table.sheet.error(
        row, f"{written!r} is a kind of row that is not known, so that the sum may be wrong", table.heading(ours)
    )


NO_CASH = "cash is not in it: the file does not say how much there is"


def fits(wanted: Columns, most: int = 20) -> Callable[[Sheet], bool]:
    return lambda sheet: find(sheet, wanted, most=most) is not None
