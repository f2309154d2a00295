"""Charles Schwab: positions of one account, or of all with a block for each."""

from __future__ import annotations

import re

from chordesk.models.statements import Draft, Kind
from chordesk.tools.holdings.formats.format import (
    Format,
    Parsed,
    american_day,
    check_total,
    holding,
    require_total,
    total_value,
    unknown_option,
)
from chordesk.tools.holdings.names import is_cusip, kind_of, option, ticker
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns, find, places_of, understood

COLUMNS = columns(
    "symbol quantity value",
    symbol="symbol",
    name="description",
    quantity="qtyquantity quantity qty; number",
    price="price; number",
    value="mktvalmarketvalue marketvalue mktval; number",
    cost="costbasis; number",
    type="assettype securitytype",
)
_FIRST = re.compile(r"positions for (?:account )?(.+?) as of (.+)", re.IGNORECASE)
_NUMBER = re.compile(r"(?:\.\.\.|x+|-)(\d{3,})", re.IGNORECASE)
_TOTALS = ("account total", "positions total")
_CASH = ("cash & cash investments", "cash and cash investments")


def _read(sheet: Sheet) -> Parsed:
    out = Parsed()
    first = _FIRST.search(sheet.rows[0].text)
    assert first is not None
    label, as_of = first[1], american_day(first[2])
    if as_of is None and sheet.hints.as_of is None:
        sheet.error(sheet.rows[0], f"{first[2][:40]!r} has no day")
    tables: list[tuple[Table, str]] = []
    for row in sheet.rows[1:]:
        if (places := places_of(row, COLUMNS)) is not None:
            tables.append((Table(sheet, COLUMNS, row, places), label))
        elif len([cell for cell in row.cells if cell.strip()]) == 1:
            label = row.text
        elif tables:
            tables[-1][0].rows.append(row)
    understood([table for table, _ in tables])
    for table, name in tables:
        number = _NUMBER.search(name)
        draft = Draft(number[1] if number else "", name, as_of)
        for row in table.rows:
            if table.whole(row):
                _position(sheet, table, row, draft, out)
        require_total(sheet, draft, "Account Total", table.rows[-1].line if table.rows else table.header.line)
        out.drafts.append(draft)
    return out


def _position(sheet: Sheet, table: Table, row: Row, draft: Draft, out: Parsed) -> None:
    written = table.raw(row, "symbol").strip()
    value, lower = table.number(row, "value"), written.lower()
    if lower in _TOTALS:
        rows = draft.holdings
        check_total(sheet, draft, row, "the account", "USD", value, total_value(rows), len(rows))
        return
    kind = kind_of(table.raw(row, "type"))
    if lower in _CASH or (kind == "cash" and not table.raw(row, "quantity").strip(" -")):
        made = holding(table, row, name="Cash", kind="cash", currency="USD", value=value)
    else:
        contract = option(written)
        if contract is None and (kind == "option" or unknown_option(sheet, row, written)):
            if kind == "option" and not sheet.problems.errors:
                sheet.error(row, f"{written[:40]!r} is an option contract in an unknown form")
            return
        paper: Kind = "other" if is_cusip(written) else "share"
        made = holding(
            table, row, name=table.text(row, "name") or written, currency="USD",
            kind="option" if contract else kind if kind not in (None, "cash") else paper,
            symbol=contract or ticker(written, "USD"), quantity=table.number(row, "quantity"),
            price=table.number(row, "price"), value=value, cost=table.number(row, "cost"),
        )  # fmt: skip
    if made is not None:
        draft.holdings.append(made)


SCHWAB = Format(
    "schwab",
    "Schwab, positions",
    "Positions for account ... as of ..., then Symbol, Description, Qty (Quantity), Mkt Val (Market Value)",
    lambda sheet: (
        bool(sheet.rows) and _FIRST.search(sheet.rows[0].text) is not None and find(sheet, COLUMNS) is not None
    ),
    _read,
)
