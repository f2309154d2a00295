"""DEGIRO: Portfolio.csv, in English, Dutch or German. Securities have an ISIN alone, and `desk holdings map` names
them."""

from __future__ import annotations

import re
from decimal import Decimal

from chordesk.models.statements import Draft
from chordesk.tools.holdings.formats.format import Format, Parsed, holding, isin_of, money_unit
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns, find, understood

COLUMNS = columns(
    "name isin quantity price value",
    name="product produkt",
    isin="symbolisin symboolisin",
    quantity="amount quantity aantal anzahl; number",
    price="closing slotkoers schlusskurs; number",
    local="localvalue lokalewaarde wertinlokalwahrung lokalwert; text",
    value="value waarde wert; number",
)
_CASH = re.compile(r"cash", re.IGNORECASE)
_AMOUNT = {**COLUMNS, "amount": COLUMNS["value"]._replace(names=(), required=False)}


def _read(sheet: Sheet) -> Parsed:
    at, table = find(sheet, _AMOUNT) or (0, None)
    assert table is not None
    base = table.unit("value") or "EUR"
    if "local" in table.places:
        table.places["amount"] = table.places["local"] + 1  # the heading goes over two columns
    out, draft = Parsed(rates={base: Decimal(1)}), Draft()
    for row in sheet.rows[at + 1 :]:
        (table.rows.append(row) if len(row.cells) > 1 else out.leave(row, "a line of words below the table"))
    understood([table])
    for row in table.rows:
        if table.whole(row):
            _position(sheet, table, row, draft, out, base)
    out.drafts = [draft]
    return out


def _position(sheet: Sheet, table: Table, row: Row, draft: Draft, out: Parsed, base: str) -> None:
    name, own = table.text(row, "name"), table.number(row, "value")
    written = table.raw(row, "local").strip() or base
    local = table.number(row, "amount")
    currency, unit = money_unit(sheet, row, written[:3])
    value = None if local is None else local / unit
    if value and own:
        rate = own / value
        before = out.rates.setdefault(currency, rate)
        if abs(rate - before) > before / 50 and abs(own) > 100:
            sheet.error(row, f"{own:,.2f} {base} for {value:,.2f} {currency} is another rate than in the rows before")
    if _CASH.search(name) and not table.raw(row, "isin").strip():
        made = holding(table, row, name="Cash", kind="cash", currency=currency, value=own if value is None else value)
    else:
        price = table.number(row, "price")
        made = holding(
            table, row, name=name, kind="share", currency=currency, isin=isin_of(sheet, row, table.raw(row, "isin")),
            quantity=table.number(row, "quantity"), price=None if price is None else price / unit, value=value,
        )  # fmt: skip
    if made is not None:
        draft.holdings.append(made)


DEGIRO = Format(
    "degiro",
    "DEGIRO, Portfolio.csv",
    "Product, Symbol/ISIN, Amount, Closing, Local value, , Value in EUR",
    lambda sheet: find(sheet, COLUMNS, most=20) is not None,
    _read,
)
