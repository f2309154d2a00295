"""Vanguard (US): OfxDownload.csv, holdings first and transactions below, which are not read."""

from __future__ import annotations

from chordesk.models.statements import Draft, Kind
from chordesk.tools.holdings.formats.format import Format, Parsed, drafts_of, holding
from chordesk.tools.holdings.names import SWEEPS, is_cusip, ticker
from chordesk.tools.holdings.sheets import Sheet, columns, find, places_of, understood

COLUMNS = columns(
    "number name shares value",
    number="accountnumber",
    name="investmentname",
    symbol="symbol",
    shares="shares; number",
    quantity="shares; number",
    price="shareprice; number",
    value="totalvalue; number",
)
_BELOW = columns("number trade type", number="accountnumber", trade="tradedate", type="transactiontype")


def _kind(symbol: str) -> Kind:
    if symbol in SWEEPS:
        return "cash"
    return "fund" if len(symbol) == 5 and symbol.endswith("X") else "other" if is_cusip(symbol) else "share"


def _read(sheet: Sheet) -> Parsed:
    at, table = find(sheet, COLUMNS) or (0, None)
    assert table is not None
    out, found = Parsed(), dict[str, Draft]()
    ended = False
    for row in sheet.rows[at + 1 :]:
        ended = ended or places_of(row, _BELOW) is not None
        if not ended:
            table.rows.append(row)
    if ended:
        sheet.notes.append("the transactions below the holdings are not read")
    understood([table])
    for row in table.rows:
        if not table.whole(row):
            continue
        symbol, value = table.raw(row, "symbol").strip(), table.number(row, "value")
        made = holding(
            table, row, name=table.text(row, "name") or symbol, currency="USD",
            kind=_kind(symbol),
            symbol=None if symbol in SWEEPS else ticker(symbol, "USD"),
            quantity=table.number(row, "quantity"), price=table.number(row, "price"), value=value,
        )  # fmt: skip
        if made is not None:
            drafts_of(found, table.raw(row, "number")).holdings.append(made)
    out.drafts = list(found.values())
    return out


VANGUARD = Format(
    "vanguard",
    "Vanguard, OfxDownload.csv",
    "Account Number, Investment Name, Symbol, Shares, Share Price, Total Value",
    lambda sheet: find(sheet, COLUMNS, most=20) is not None,
    _read,
)
