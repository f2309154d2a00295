"""E*TRADE: PortfolioDownload.csv of one account."""

from __future__ import annotations

import re

from chordesk.models.statements import Draft
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
from chordesk.tools.holdings.names import option, ticker
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns, find, understood

COLUMNS = columns(
    "symbol price quantity paid value",
    symbol="symbol",
    price="lastprice; number",
    quantity="quantity; number",
    paid="pricepaid; number",
    value="value; number",
)
_NUMBER = re.compile(r"[-x.](\d{3,})\b")


def _read(sheet: Sheet) -> Parsed:
    at, table = find(sheet, COLUMNS) or (0, None)
    assert table is not None
    out = Parsed()
    above = [row for row in sheet.rows[:at] if row.text]
    named = next((row for row in above if _NUMBER.search(row.cell(0)) and len(row.cells) > 1), None)
    number = _NUMBER.search(named.cell(0)) if named is not None else None
    below = sheet.rows[at + 1 :]
    footer = next((row for row in below if row.text.lower().startswith("generated at")), None)
    as_of = american_day(footer.text) if footer is not None else None
    draft = Draft(number[1] if number else "", named.cell(0)[:40] if named else "", as_of)
    table.rows = [row for row in below if row is not footer and len(row.cells) > 1]
    taken = {row.line for row in table.rows}
    understood([table])
    for row in below:
        if row.line in taken:
            if table.whole(row):
                _position(sheet, table, row, draft, out)
        elif row is not footer:
            out.leave(row, "a line of words below the table")
    require_total(sheet, draft, "TOTAL", below[-1].line if below else table.header.line)
    out.drafts = [draft]
    return out


def _position(sheet: Sheet, table: Table, row: Row, draft: Draft, out: Parsed) -> None:
    written, value = table.raw(row, "symbol").strip(), table.number(row, "value")
    if written.upper() == "TOTAL":
        rows = draft.holdings
        check_total(sheet, draft, row, "the account", "USD", value, total_value(rows), len(rows))
        return
    quantity = table.number(row, "quantity")
    paid, contract = table.number(row, "paid"), option(written)
    if written.upper() == "CASH":
        made = holding(table, row, name="Cash", kind="cash", currency="USD", value=value)
    else:
        if contract is None and unknown_option(sheet, row, written):
            return
        symbol = contract or ticker(written, "USD")
        size = 100 if contract else 1
        made = holding(
            table, row, name=written, kind="option" if contract else "share" if symbol else "other", currency="USD",
            symbol=symbol, quantity=quantity, price=table.number(row, "price"), value=value,
            cost=quantity * paid * size if symbol and quantity is not None and paid is not None else None,
        )  # fmt: skip
    if made is not None:
        draft.holdings.append(made)


ETRADE = Format(
    "etrade",
    "E*TRADE, PortfolioDownload.csv",
    "Symbol, Last Price $, Change $, Change %, Quantity, Price Paid $, ..., Value $",
    lambda sheet: find(sheet, COLUMNS) is not None,
    _read,
)
