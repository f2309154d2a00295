"""Zerodha: holdings of Kite or Console, in rupees."""

from __future__ import annotations

from chordesk.models.statements import Draft
from chordesk.tools.holdings.formats.format import Format, Parsed, check_total, holding, total_value
from chordesk.tools.holdings.names import ticker
from chordesk.tools.holdings.sheets import Sheet, columns, find, understood

COLUMNS = columns(
    "symbol quantity average price",
    symbol="instrument",
    quantity="qty; number",
    average="avgcost; number",
    price="ltp; number",
    value="curval currentvalue presentvalue; number",
)


def _read(sheet: Sheet) -> Parsed:
    at, table = find(sheet, COLUMNS) or (0, None)
    assert table is not None
    out, draft = Parsed(), Draft()
    table.rows = [row for row in sheet.rows[at + 1 :] if len(row.cells) > 1]
    understood([table])
    for row in table.rows:
        if not table.whole(row):
            continue
        written, value = table.raw(row, "symbol").strip(), table.number(row, "value")
        if written.lower() in ("total", ""):
            if "value" in table.places:
                rows = draft.holdings
                check_total(sheet, draft, row, "the account", "INR", value, total_value(rows), len(rows))
            continue
        quantity, average = table.number(row, "quantity"), table.number(row, "average")
        made = holding(
            table, row, name=written, kind="share", currency="INR", symbol=ticker(written, "INR"), quantity=quantity,
            price=table.number(row, "price"), value=value,
            cost=None if average is None or quantity is None else quantity * average,
        )  # fmt: skip
        if made is not None:
            draft.holdings.append(made)
    out.drafts = [draft]
    return out


ZERODHA = Format(
    "zerodha",
    "Zerodha, holdings",
    "Instrument, Qty., Avg. cost, LTP",
    lambda sheet: find(sheet, COLUMNS, most=40) is not None,
    _read,
)
