"""Moomoo and Futu: positions of one account."""

from __future__ import annotations

from chordesk.models.statements import Draft, Kind
from chordesk.tools.holdings.formats.format import Format, Parsed, holding, money_unit, unknown_option
from chordesk.tools.holdings.names import option, ticker
from chordesk.tools.holdings.sheets import Sheet, columns, find, understood

COLUMNS = columns(
    "symbol name quantity price average value currency",
    symbol="symbol",
    name="name",
    quantity="quantity; number",
    price="currentprice; number",
    average="averagecost; number",
    value="marketvalue; number",
    currency="currency",
)


def _read(sheet: Sheet) -> Parsed:
    at, table = find(sheet, COLUMNS) or (0, None)
    assert table is not None
    out, draft = Parsed(), Draft()
    table.rows = [row for row in sheet.rows[at + 1 :] if len(row.cells) > 2]
    understood([table])
    for row in table.rows:
        if not table.whole(row):
            continue
        written = table.raw(row, "symbol").strip()
        currency, unit = money_unit(sheet, row, table.raw(row, "currency"))
        contract = option(written, thousandths=True)
        if "/" in written and contract is None and len(written) > 8:
            sheet.error(row, f"{written[:40]!r} is a spread of contracts, which is no holding by itself; leave it out")
            continue
        if contract is None and unknown_option(sheet, row, written):
            continue
        quantity, average = table.number(row, "quantity"), table.number(row, "average")
        price, value = table.number(row, "price"), table.number(row, "value")
        kind: Kind = "option" if contract else "share"
        made = holding(
            table, row, name=table.text(row, "name") or written, kind=kind, currency=currency,
            symbol=contract or ticker(written[3:] if written[:3] in ("US.", "HK.") else written, currency),
            quantity=quantity, price=None if price is None else price / unit,
            value=None if value is None else value / unit,
            cost=None if average is None or quantity is None else quantity * average / unit * (100 if contract else 1),
        )  # fmt: skip
        if made is not None:
            draft.holdings.append(made)
    out.drafts = [draft]
    return out


MOOMOO = Format(
    "moomoo",
    "Moomoo, positions",
    "Symbol, Name, Quantity, Current price, Average Cost, Market Value, ..., Currency",
    lambda sheet: find(sheet, COLUMNS, most=20) is not None,
    _read,
)
