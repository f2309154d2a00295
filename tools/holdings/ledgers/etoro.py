"""eToro: the activity of an account. A contract for difference is no holding: its rows are left out by name."""

from __future__ import annotations

import re

from chordesk.models.statements import Kind
from chordesk.models.text import one_line
from chordesk.tools.holdings.formats.format import Format, Parsed
from chordesk.tools.holdings.ledgers.ledger import (
    NO_CASH,
    Ledger,
    activity_table,
    each_row,
    fits,
    thing_of,
    unknown_kind,
)
from chordesk.tools.holdings.sheets import Sheet, columns

COLUMNS = columns(
    "date type details amount units position asset",
    date="date; day",
    type="type",
    details="details",
    amount="amount; number",
    units="units; number",
    position="positionid",
    asset="assettype",
)
_MONEY = re.compile(
    r"dividend|interest|withdraw|deposit|fee|refund|sdrt|conversion|rollover|adjustment|bonus|payment|credit|tax",
    re.IGNORECASE,
)
_KINDS: dict[str, Kind] = {"stocks": "share", "etf": "fund", "crypto": "crypto"}


def _read(sheet: Sheet) -> Parsed:
    table, out = activity_table(sheet, COLUMNS, days="dmy")
    ledger, known = Ledger(sheet), dict[tuple[str, str], int]()
    for row in each_row(table, out, "position"):
        kind, day = table.raw(row, "type").strip().lower(), table.day(row, "date")
        if kind not in ("open position", "position closed"):
            ledger.seen(day) if _MONEY.search(kind) else unknown_kind(table, row, "type")
            continue
        position = table.raw(row, "position").strip()
        if position and (first := known.setdefault((kind, position), row.line)) != row.line:
            sheet.error(row, f"{kind} {one_line(position, 30)} is in row {first} too", table.heading("position"))
            continue
        asset = table.raw(row, "asset").strip().lower()
        if asset == "cfd":
            out.leave(row, "a contract for difference: no share is held")
            continue
        if asset not in _KINDS:
            unknown_kind(table, row, "asset")
            continue
        symbol, _, currency = table.raw(row, "details").strip().partition("/")
        if len(currency) != 3:
            sheet.error(row, f"{table.text(row, 'details', 40)!r} is no SYMBOL/CURRENCY", table.heading("details"))
            continue
        thing = thing_of(table, row, currency=currency.upper(), name=symbol, symbol=symbol, kind=_KINDS[asset])
        units = table.number(row, "units")
        ledger.move(row, day, thing, -abs(units) if units is not None and kind == "position closed" else units)
    sheet.notes.append(NO_CASH)
    out.drafts, out.summed = [ledger.done()], ledger.rows
    return out


ETORO = Format(
    "etoro",
    "eToro, account activity",
    "Date, Type, Details, Amount, Units, Realized Equity Change, Realized Equity, Balance, Position ID, Asset type",
    fits(COLUMNS),
    _read,
    summed=True,
)
