"""Robinhood: the activity of an account."""

from __future__ import annotations

import re
from decimal import Decimal

from chordesk.tools.holdings.formats.format import Format, Parsed, unknown_option
from chordesk.tools.holdings.ledgers.ledger import (
    Ledger,
    Thing,
    activity_table,
    each_row,
    fits,
    is_its_amount,
    thing_of,
    unknown_kind,
)
from chordesk.tools.holdings.names import option
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns

COLUMNS = columns(
    "date instrument description code quantity amount",
    date="activitydate; day",
    instrument="instrument",
    description="description",
    code="transcode",
    quantity="quantity; text",
    price="price; number",
    amount="amount; number",
)
_MORE, _LESS = ("BUY", "BTO", "BTC", "REC", "SPL"), ("SELL", "STC", "STO")
# A contract that ends: its quantity has an S behind it where it was held, and none where it was written.
_ENDS = ("OEXP", "OASGN", "OEXCS")
_CLOSE = ("STC", "BTC", *_ENDS)
# By size, more than the fees of one share and of one contract that are in an amount.
_FEES = {1: Decimal("0.001"), 100: Decimal("0.5")}
_MONEY = (
    "ACH", "CDIV", "MDIV", "QDIV", "SLIP", "INT", "MINT", "GOLD", "DFEE", "AFEE", "DTAX", "DCF", "RTP", "ITRF", "ABIP",
    "GDBP", "GMPC", "XENT", "XENT_CC", "CIL", "FUTSWP", "MISC", "WIRE", "DIV", "TAX",
)  # fmt: skip
_CONTRACT = re.compile(r"[A-Z.]{1,6}\s+\d{1,2}/\d{1,2}/\d{4}\s+(?:Call|Put)\s+\$[\d,]+(?:\.\d+)?", re.IGNORECASE)


def _read(sheet: Sheet) -> Parsed:
    table, out = activity_table(sheet, COLUMNS, days="mdy")
    ledger = Ledger(sheet)
    for row in each_row(table, out):
        code, day = table.raw(row, "code").strip().upper(), table.day(row, "date")
        if not code and not any(table.raw(row, one).strip() for one in ("date", "instrument", "quantity", "amount")):
            out.leave(row, "no row of the table")
            continue
        if code in (*_MORE, *_LESS, *_ENDS):
            thing, quantity = _thing(table, row, code), _quantity(table, row, code)
            size = 100 if thing is not None and thing.kind == "option" else 1
            is_its_amount(
                table, row, quantity=quantity, price=table.number(row, "price"), amount=table.number(row, "amount"),
                factors=[Decimal(size)], charges=abs(quantity or Decimal(0)) * _FEES[size],
            )  # fmt: skip
            ledger.move(row, day, thing, quantity, closes=code in _CLOSE)
        elif code in _MONEY:
            ledger.seen(day)
        else:
            unknown_kind(table, row, "code")
        ledger.pay("USD", table.number(row, "amount"))
    out.drafts, out.summed = [ledger.done()], ledger.rows
    return out


def _quantity(table: Table, row: Row, code: str) -> Decimal | None:
    text = table.raw(row, "quantity").strip().upper().replace(",", "")
    try:
        found = Decimal(text.removesuffix("S"))
    except ArithmeticError:
        table.sheet.error(row, f"{text[:40]!r} is no number", table.heading("quantity"))
        return Decimal(0)
    if not found.is_finite():
        table.sheet.error(row, f"{text[:40]!r} is no number", table.heading("quantity"))
        return Decimal(0)
    is_less = text.endswith("S") if code in _ENDS else code in _LESS
    return -abs(found) if is_less else abs(found)


def _thing(table: Table, row: Row, code: str) -> Thing | None:
    text = " ".join(table.raw(row, "description").split())
    if (found := _CONTRACT.search(text)) is not None and (contract := option(found[0])) is not None:
        return thing_of(table, row, currency="USD", name=contract, contract=contract, kind="option")
    if code in ("BTO", "BTC", "STO", "STC", *_ENDS):
        if not unknown_option(table.sheet, row, text):
            table.sheet.error(row, f"{text[:40]!r} is an option contract in an unknown form")
        return None
    written = table.raw(row, "instrument").strip()
    return thing_of(table, row, currency="USD", name=text.partition(" CUSIP")[0][:80] or written, symbol=written)


ROBINHOOD = Format(
    "robinhood",
    "Robinhood, activity",
    "Activity Date, Process Date, Settle Date, Instrument, Description, Trans Code, Quantity, Price, Amount",
    fits(COLUMNS),
    _read,
    summed=True,
)
