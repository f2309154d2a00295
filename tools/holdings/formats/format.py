"""What a format of files is, and the parts that the readers of several formats share."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from chordesk.models.errors import UsageError
from chordesk.models.market import multiplier_of
from chordesk.models.statements import Draft, Holding, Kind, LeftOut, Total
from chordesk.models.text import one_line
from chordesk.tools.holdings.names import ISIN, is_cusip, looks_like_option
from chordesk.tools.holdings.sheets import Row, Sheet, Table, near
from chordesk.tools.market.files.notation import EMPTY, money_of


@dataclass(slots=True)
class Parsed:
    """What a reader made of a sheet. rates: by currency, units of the file's base currency for one unit. summed: rows
    of activity that the holdings are a sum of."""

    drafts: list[Draft] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    rates: dict[str, Decimal] = field(default_factory=dict)
    summed: int | None = None

    def leave(self, row: Row, why: str) -> None:
        self.left_out.append(LeftOut(row.line, one_line(row.text, 60), why))

    def dollars(self, currency: str) -> Decimal | None:
        """Return US dollars for one unit of a currency, by the file's own rates."""
        if currency == "USD":
            return Decimal(1)
        own, dollar = self.rates.get(currency), self.rates.get("USD")
        return own / dollar if own and dollar else None


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file. fits: whether a sheet is one. read: raises UsageError, and leaves problems in the sheet. summed:
    it lists what happened, so that holdings are a sum."""

    key: str
    shown: str
    columns: str  # the headings by which it is recognised, for people
    fits: Callable[[Sheet], bool]
    read: Callable[[Sheet], Parsed]
    summed: bool = False


UNITS = {"GBX": ("GBP", 100), "GBp": ("GBP", 100), "ZAc": ("ZAR", 100), "ILA": ("ILS", 100), "USX": ("USD", 100)}
_CURRENCY = re.compile(r"[A-Z]{3}")
DOLLARS = ("$", "US$")  # the first is that of any dollar, where a file says which
_SIGNS = {
    "¥": "JPY",
    "$": "USD",
    "€": "EUR",
    "£": "GBP",
    "₹": "INR",
    "US$": "USD",
    "HK$": "HKD",
    "C$": "CAD",
    "A$": "AUD",
}
MOST_UNITS = {"crypto": Decimal("1e16"), "cash": Decimal("1e12")}
MOST_SHARES = Decimal("1e9")


def money_unit(sheet: Sheet, row: Row, text: str) -> tuple[str, int]:
    """Return (currency, how many of the written unit make one of it): GBX is a hundredth of GBP."""
    written = text.strip()
    if written in UNITS:
        return UNITS[written]
    code = _SIGNS.get(written, written.upper())
    if not _CURRENCY.fullmatch(code):
        sheet.error(row, f"{one_line(written, 20)!r} is no currency; write its three letters, such as USD")
        return "USD", 1
    return code, 1


def isin_of(sheet: Sheet, row: Row, text: str) -> str | None:
    """Return an ISIN; one whose check digit is wrong is a problem."""
    code = text.strip().upper()
    if not code:
        return None
    if ISIN.fullmatch(code) is None or not _is_checked(code):
        sheet.error(row, f"{one_line(code, 20)!r} is no ISIN: its check digit does not fit")
        return None
    return code


def _is_checked(code: str) -> bool:
    digits = "".join(str(int(letter, 36)) for letter in code)
    doubled = [int(one) * (2 if at % 2 else 1) for at, one in enumerate(reversed(digits))]
    return sum(one // 10 + one % 10 for one in doubled) % 10 == 0


def holding(
    table: Table,
    row: Row,
    *,
    name: str,
    kind: Kind,
    currency: str,
    symbol: str | None = None,
    isin: str | None = None,
    quantity: Decimal | None = None,
    price: Decimal | None = None,
    value: Decimal | None = None,
    cost: Decimal | None = None,
    rate: Decimal | None = None,
    multiplier: Decimal | None = None,
) -> Holding | None:
    """Return a row as a holding after its own sum is checked: quantity x price is the value. None where that, or a
    missing figure, is a problem now."""
    sheet = table.sheet
    if not _is_of_its_currency(table, row, currency):
        return None
    if kind == "cash":
        amount = value if value is not None else quantity
        if amount is None:
            sheet.error(row, f"{name!r} is cash without an amount")
            return None
        return Holding(row.line, name, kind, amount, currency, symbol, isin, None, amount, None, rate)
    if quantity is None:
        if table.raw(row, "quantity").strip().lower() in EMPTY:  # another text is a problem already
            sheet.error(row, f"{name or symbol!r} has no quantity", table.heading("quantity"))
        return None
    most = MOST_UNITS.get(kind, MOST_SHARES)
    if abs(quantity) >= most:
        sheet.error(row, f"a quantity of {quantity:,f} is too large to be meant", table.heading("quantity"))
        return None
    if price is not None and price < 0:
        sheet.error(row, f"a price of {price} is below 0", table.heading("price"))
        return None
    size = multiplier or (Decimal(str(multiplier_of(symbol))) if symbol else Decimal(1))
    if price is not None and value is not None:
        product = quantity * price * size
        if not _fits(product, value, quantity * size, price) and not _fits(-product, value, quantity * size, price):
            is_bond = kind == "other" and (symbol is None or is_cusip(symbol))
            if not is_bond or not _fits(product / 100, value, quantity * size / 100, price):
                text = f"{quantity:f} x {price:f}" + (f" x {size:f}" if size != 1 else "")
                sheet.error(row, f"{name or symbol}: {text} is {product:,.2f}, and the value is {value:,.2f}")
                return None
            price = value / quantity if quantity else None
    if value is not None and value < 0 < quantity and kind != "other":  # a future or a swap may be worth less than 0
        sheet.error(row, f"{name or symbol}: {quantity:f} is a long position, and its value is {value:,.2f}")
        return None
    if value is not None and quantity < 0 < value:
        value = -value
    return Holding(row.line, name, kind, quantity, currency, symbol, isin, price, value, cost, rate)


def _is_of_its_currency(table: Table, row: Row, currency: str) -> bool:
    """Whether no figure has another currency written beside it than its heading states, or else the row has."""
    for ours in ("quantity", "price", "value", "cost"):
        mark, heading = money_of(table.raw(row, ours)), table.unit(ours)
        due = money_unit(table.sheet, row, heading)[0] if heading else currency
        if mark is None or (mark in DOLLARS and due.endswith("D")):
            continue
        if (stated := money_unit(table.sheet, row, mark)[0]) != due:
            text = f"{one_line(table.raw(row, ours), 30)!r} is in {stated}, and {due} is due"
            table.sheet.error(row, text, table.heading(ours))
            return False
    return True


def _fits(product: Decimal, value: Decimal, units: Decimal, price: Decimal) -> bool:
    """Whether a value is the product up to the rounding of both, and half a per cent for a price of another minute."""
    places = Decimal(1).scaleb(int(price.as_tuple().exponent)) if price.is_finite() else Decimal(1)
    rounding = abs(units) * min(places, Decimal("0.01")) / 2 + Decimal("0.02")
    return abs(product - value) <= rounding + abs(value) / 200


def unknown_option(sheet: Sheet, row: Row, text: str) -> bool:
    """Whether a text looks like a contract that nobody here can read, which is a problem now."""
    if looks_like_option(text):
        sheet.error(row, f"{one_line(text, 40)!r} looks like an option contract in an unknown form")
        return True
    return False


def check_total(
    sheet: Sheet, draft: Draft, row: Row, what: str, currency: str, stated: Decimal | None, found: Decimal, rows: int
) -> None:
    if stated is None:
        sheet.error(row, f"the total of {what} has no amount: the file may be cut")
        return
    draft.totals.append(Total(what, currency, stated, found, row.line))
    if not near(stated, found, rows):
        sheet.error(row, f"the file's total of {what} is {stated:,.2f}, and its rows come to {found:,.2f}")


def require_total(sheet: Sheet, draft: Draft, what: str, line: int) -> None:
    """A format that ends with a total, without it, was cut."""
    if not draft.totals and not sheet.hints.without_total:
        who = f" of the account {draft.label or draft.number}" if draft.label or draft.number else ""
        sheet.error(line, f"has no {what}{who}: the file may be cut; --without-total takes it all the same")


def total_value(rows: Iterable[Holding]) -> Decimal:
    return sum((row.value or Decimal(0) for row in rows), Decimal(0))


_NAMED_DAY = re.compile(r"\b([A-Z][a-z]{2})[a-z]*[-. ]+(\d{1,2})[-, ]+(\d{4})\b")
_SLASHED = re.compile(r"\b(?:(\d{4})[/-](\d{1,2})[/-](\d{1,2})|(\d{1,2})/(\d{1,2})/(\d{4}))\b")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def american_day(text: str) -> dt.date | None:
    """Return the day in a line of a US broker: Jul-12-2026, December 31, 2025, 2025/05/04 or 05/04/2025."""
    try:
        if (found := _SLASHED.search(text)) is not None:
            if found[1]:
                return dt.date(int(found[1]), int(found[2]), int(found[3]))
            return dt.date(int(found[6]), int(found[4]), int(found[5]))
        if (named := _NAMED_DAY.search(text)) is not None and named[1].lower() in _MONTHS:
            return dt.date(int(named[3]), _MONTHS.index(named[1].lower()) + 1, int(named[2]))
    except ValueError:
        return None
    return None


def drafts_of(found: dict[str, Draft], number: str, label: str = "") -> Draft:
    return found.setdefault(number or label, Draft(number, label))


def fail(sheet: Sheet, line: int, message: str, remedy: str) -> UsageError:
    return UsageError(f"{sheet.name}, row {line}: {message}", remedy=remedy)
