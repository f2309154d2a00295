"""Interactive Brokers: the XML of a Flex query. It is read by expat without declarations of entities, so that a small
file cannot become a large one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any
from xml.parsers import expat

from chordesk.models.errors import UsageError
from chordesk.models.market import parse_contract
from chordesk.models.outside import Oversized, require
from chordesk.models.statements import Draft, Holding, Kind, Total
from chordesk.models.text import one_line
from chordesk.tools.holdings.formats.format import Parsed, isin_of
from chordesk.tools.holdings.names import option, ticker
from chordesk.tools.holdings.sheets import MOST_MONEY, MOST_ROWS, Hints, Row, Sheet, near
from chordesk.tools.market.files.tables import NUMBER, Problems

SHOWN = "Interactive Brokers, Flex query"
_REMEDY = "a Flex query with Open Positions and Cash Report, format XML; nothing was written"
_KINDS: Mapping[str, Kind] = {
    "STK": "share", "OPT": "option", "FOP": "option", "FUND": "fund", "CASH": "cash", "CRYPTO": "crypto", "ETF": "fund",
}  # fmt: skip
_READ = frozenset({"FlexStatement", "OpenPosition", "CashReportCurrency", "EquitySummaryByReportDateInBase"})


def is_flex(start: bytes) -> bool:
    return b"<FlexQueryResponse" in start or b"<FlexStatementResponse" in start


def elements(name: str, data: bytes) -> list[tuple[int, str, dict[str, str]]]:
    """Return (line, tag, attributes) of the elements of a document. Raises UsageError for a declaration of a type or an
    entity, and for XML that is damaged or cut."""
    found: list[tuple[int, str, dict[str, str]]] = []

    def begin(line: int, tag: str, attributes: dict[str, str]) -> None:
        found.append((line, tag, attributes))
        require("the file", len(found), MOST_ROWS * 5, "elements")

    _parse(name, data, begin, lambda _: None)
    return found


def texts(name: str, data: bytes) -> dict[str, str]:
    """Return what the elements of a small document hold, by tag. Raises UsageError as `elements` does."""
    found: dict[str, str] = {}
    tag = ""

    def begin(_: int, opened: str, __: dict[str, str]) -> None:
        nonlocal tag
        tag = opened

    def text(more: str) -> None:
        found[tag] = found.get(tag, "") + more

    _parse(name, data, begin, text)
    return {one: held.strip() for one, held in found.items()}


def _parse(
    name: str, data: bytes, begin: Callable[[int, str, dict[str, str]], None], text: Callable[[str], None]
) -> None:
    parser = expat.ParserCreate()

    def refuse(*_: Any) -> None:
        line = parser.CurrentLineNumber
        raise UsageError(f"{name}, row {line}: declares a document type or an entity", remedy=f"export {_REMEDY}")

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler = lambda tag, attributes: begin(parser.CurrentLineNumber, tag, attributes)
    parser.CharacterDataHandler = text
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        why = expat.errors.messages[error.code] if error.code in expat.errors.messages else str(error)
        raise UsageError(f"{name}, row {error.lineno}: is no whole XML: {why}", remedy=f"export {_REMEDY}") from None
    except Oversized as error:
        raise UsageError(f"{name}: {error}", remedy="export open positions without lots") from None


@dataclass(slots=True)
class _Part:
    """An account of the file while its elements are read. rates: units of its base currency for one of another; sums:
    what the file states of it in that currency, by what it is of."""

    draft: Draft
    rates: dict[str, Decimal] = field(default_factory=dict)
    sums: dict[str, Decimal] = field(default_factory=dict)

    def end(self, sheet: Sheet) -> None:
        """Hold the sums against the rows, as far as their rates are known, and give the rows their rates. Accounts of
        one file may have several base currencies."""
        for what, stated in self.sums.items():
            some = [one for one in self.draft.holdings if one.kind in _SUMMARY[what]]
            if any(one.currency not in self.rates for one in some):
                continue
            found = sum(((one.value or Decimal(0)) * self.rates[one.currency] for one in some), Decimal(0))
            self.draft.totals.append(Total(what, "", stated, found, 0))
            if not near(stated, found, len(some)) and abs(stated - found) > abs(stated) / 200:
                sheet.error(1, f"the file's total of {what} is {stated:,.2f}, and its rows come to {found:,.2f}")
        if dollar := self.rates.get("USD"):
            self.draft.holdings = [
                replace(one, rate=self.rates[one.currency] / dollar) if one.currency in self.rates else one
                for one in self.draft.holdings
            ]


_SUMMARY: Mapping[str, frozenset[Kind]] = {
    "stock": frozenset({"share"}),
    "options": frozenset({"option"}),
    "cash": frozenset({"cash"}),
}
_IN_BASE = "BASE_SUMMARY"


def parse_flex(data: bytes, name: str, hints: Hints) -> tuple[Parsed, Sheet]:
    sheet = Sheet(name, "", [], hints, Problems())
    parts: list[_Part] = []
    for line, tag, row in elements(name, data):
        if tag == "FlexStatement":
            number = row.get("accountId", "")
            parts.append(_Part(Draft(number, number, _day(sheet, line, row.get("toDate", "")))))
        elif tag in _READ and parts:
            _read(sheet, line, tag, row, parts[-1])
    for part in parts:
        part.end(sheet)
    if not parts:
        raise UsageError(f"{name}: has no FlexStatement", remedy=f"export {_REMEDY}")
    return Parsed([one.draft for one in parts]), sheet


def _read(sheet: Sheet, line: int, tag: str, row: dict[str, str], part: _Part) -> None:
    draft = part.draft
    if tag == "EquitySummaryByReportDateInBase":
        if _day(sheet, line, row.get("reportDate", "")) == draft.as_of:
            found = {one: _number(sheet, line, row, one) for one in _SUMMARY}
            part.sums |= {one: number for one, number in found.items() if number is not None}
        return
    if tag == "CashReportCurrency" and row.get("currency") == _IN_BASE:
        if (whole := _number(sheet, line, row, "endingCash")) is not None:
            part.sums["cash"] = whole
        return
    base = _number(sheet, line, row, "fxRateToBase")
    if base is not None and base <= 0:
        sheet.error(line, f"a rate of {base:f} for {row.get('currency', '')}: a rate is above 0", "fxRateToBase")
    elif base is not None:
        part.rates.setdefault(row.get("currency", ""), base)
    if (made := _holding(sheet, line, tag, row)) is not None:
        draft.holdings.append(made)
        draft.as_of = draft.as_of or _day(sheet, line, row.get("reportDate", ""))


def _holding(sheet: Sheet, line: int, tag: str, row: dict[str, str]) -> Holding | None:
    currency = row.get("currency", "")
    if len(currency) != 3 or not currency.isalpha():
        if tag == "OpenPosition":
            sheet.error(line, f"{one_line(currency, 20)!r} is no currency", "currency")
        return None
    if tag == "CashReportCurrency":
        amount = _number(sheet, line, row, "endingCash")
        return Holding(line, "Cash", "cash", amount, currency, None, None, None, amount) if amount else None
    if row.get("levelOfDetail", "SUMMARY") != "SUMMARY":
        return None
    kind: Kind = _KINDS.get(row.get("assetCategory", "STK"), "other")
    written, quantity = row.get("symbol", "").strip(), _number(sheet, line, row, "position")
    value = _number(sheet, line, row, "positionValue")
    price, size = _number(sheet, line, row, "markPrice"), _number(sheet, line, row, "multiplier") or Decimal(1)
    if quantity is None:
        if not row.get("position", "").strip():
            sheet.error(line, f"{one_line(written, 40)!r} has no position", "position")
        return None
    symbol = None
    if kind == "option":
        found = parse_contract(" ".join(written.split())) or parse_contract(written)
        symbol = found.symbol if found is not None else option(written)
        if symbol is None:
            sheet.error(line, f"{one_line(written, 40)!r} is an option contract in an unknown form", "symbol")
            return None
    elif kind == "share":
        symbol = ticker(written, currency)
    if price is not None and value is not None and not near(value, quantity * price * size, 1):
        product = quantity * price * size
        if abs(value - product) > abs(value) / 200:
            sheet.error(line, f"{written}: {quantity:f} x {price:f} is {product:,.2f}, and the value is {value:,.2f}")
    code = row.get("isin", "").strip()
    return Holding(
        line, one_line(row.get("description") or written, 120), kind, quantity, currency, symbol,
        isin_of(sheet, Row(line, []), code) if code else None, price, value,
        _number(sheet, line, row, "costBasisMoney"),
    )  # fmt: skip


def _number(sheet: Sheet, line: int, row: dict[str, str], name: str) -> Decimal | None:
    text = row.get(name, "").strip()
    if not text:
        return None
    try:
        if NUMBER.fullmatch(text) is None:
            raise InvalidOperation
        found = Decimal(text)
    except InvalidOperation:
        sheet.error(line, f"{one_line(text, 40)!r} is no number; Flex writes 1234.56", name)
        return None
    if abs(found) >= MOST_MONEY:
        sheet.error(line, f"{one_line(text, 40)} is too large to be meant", name)
        return None
    return found


def _day(sheet: Sheet, line: int, text: str) -> dt.date | None:
    digits = text.strip().split(";")[0].replace("-", "").replace("/", "")
    if not digits:
        return None
    try:
        return dt.datetime.strptime(digits[:8], "%Y%m%d").date()
    except ValueError:
        sheet.error(line, f"{one_line(text, 20)!r} is no day; Flex writes yyyymmdd")
        return None
