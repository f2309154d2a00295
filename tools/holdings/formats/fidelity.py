"""Fidelity: Portfolio_Positions, of one account or several."""

from __future__ import annotations

from chordesk.models.statements import Draft, Kind
from chordesk.tools.holdings.formats.format import (
    Format,
    Parsed,
    american_day,
    drafts_of,
    holding,
    unknown_option,
)
from chordesk.tools.holdings.names import SWEEPS, is_cusip, kind_of, option, ticker
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns, find, understood

COLUMNS = columns(
    "number symbol quantity value",
    number="accountnumber",
    label="accountname",
    symbol="symbol",
    name="description",
    quantity="quantity; number",
    price="lastprice; number",
    value="currentvalue; number",
    cost="costbasistotal costbasis; number",
    type="type",
)
_ENDS = 'the line "Date downloaded"'


def _read(sheet: Sheet) -> Parsed:
    at, table = find(sheet, COLUMNS) or (0, None)
    assert table is not None
    out = Parsed()
    below = sheet.rows[at + 1 :]
    table.rows = [row for row in below if len(row.cells) > 2 and table.raw(row, "number")]
    taken = {row.line for row in table.rows}
    understood([table])
    found: dict[str, Draft] = {}
    as_of = next((day for row in below if "downloaded" in row.text.lower() and (day := american_day(row.text))), None)
    for row in below:
        if row.line not in taken and len(row.cells) > 2 and any(row.cell(at) for at in table.places.values()):
            sheet.error(row, "has no account number", table.heading("number"))
        elif row.line not in taken:
            out.leave(row, "a line of words below the table")
        elif table.whole(row):
            _position(sheet, table, row, drafts_of(found, table.raw(row, "number"), table.text(row, "label", 40)), out)
    if as_of is None and sheet.hints.as_of is None:
        sheet.error(
            below[-1].line if below else 1, f"has no {_ENDS}: the file may be cut; if it is whole, say --as-of DAY"
        )
    for one in found.values():
        one.as_of = as_of
    out.drafts = list(found.values())
    return out


def _kind(symbol: str, name: str) -> Kind:
    """Return what a paper is that is no contract: bonds have a CUSIP in place of a ticker, and a price per hundred."""
    return "fund" if kind_of(name) == "fund" else "other" if is_cusip(symbol) else "share"


def _position(sheet: Sheet, table: Table, row: Row, draft: Draft, out: Parsed) -> None:
    written, name = table.raw(row, "symbol").strip(), table.text(row, "name")
    if "pending activity" in f"{written} {name}".lower():
        out.leave(row, "money on its way, no holding")
        return
    number, value = table.number(row, "quantity"), table.number(row, "value")
    symbol = written.rstrip("*").strip()
    contract = option(symbol)
    sweep = written.endswith("**") or (symbol in SWEEPS and number is None)
    if not sweep and contract is None and unknown_option(sheet, row, symbol):
        return
    made = holding(
        table, row, name=name or symbol, currency="USD", value=value,
        kind="cash" if sweep else "option" if contract else _kind(symbol, name),
        symbol=contract or (None if sweep else ticker(symbol, "USD")), quantity=number,
        price=table.number(row, "price"), cost=table.number(row, "cost"),
    )  # fmt: skip
    if made is not None:
        draft.holdings.append(made)


FIDELITY = Format(
    "fidelity",
    "Fidelity, positions",
    "Account Number, Account Name, Symbol, Description, Quantity, Last Price, Current Value",
    lambda sheet: find(sheet, COLUMNS, most=20) is not None,
    _read,
)
