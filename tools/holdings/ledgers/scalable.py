"""Scalable Capital: the transactions of an account. Orders that were not executed are in it too."""

from __future__ import annotations

from decimal import Decimal

from chordesk.tools.holdings.formats.format import Format, Parsed, money_unit
from chordesk.tools.holdings.ledgers.ledger import (
    NO_CASH,
    Ledger,
    activity_table,
    each_row,
    fits,
    is_its_amount,
    thing_of,
    unknown_kind,
)
from chordesk.tools.holdings.sheets import Sheet, columns

COLUMNS = columns(
    "date status reference asset type isin shares amount currency",
    date="date; day",
    status="status",
    reference="reference",
    name="description",
    asset="assettype",
    type="type",
    isin="isin",
    shares="shares; number",
    price="price; number",
    amount="amount; number",
    fee="fee; number",
    tax="tax; number",
    currency="currency",
)
_OPEN = ("cancelled", "canceled", "expired", "rejected", "pending")
_MORE, _LESS = ("buy", "savings plan", "reinvestment"), ("sell",)
_MONEY = ("deposit", "withdrawal", "distribution", "interest", "fee", "taxes", "tax", "cash transfer", "dividend")


def _read(sheet: Sheet) -> Parsed:
    table, out = activity_table(sheet, COLUMNS)
    ledger = Ledger(sheet)
    for row in each_row(table, out, "reference"):
        status, kind = table.raw(row, "status").strip().lower(), table.raw(row, "type").strip().lower()
        if status in _OPEN:
            out.leave(row, f"{status}: nothing happened")
        elif status not in ("executed", "settled"):
            unknown_kind(table, row, "status")
        elif kind in _MONEY:
            ledger.seen(table.day(row, "date"))
        elif kind in (*_MORE, *_LESS):
            currency, _ = money_unit(sheet, row, table.raw(row, "currency"))
            thing = thing_of(table, row, currency=currency, name=table.text(row, "name"), code=table.raw(row, "isin"))
            shares, charges = table.number(row, "shares"), (table.number(row, one) for one in ("fee", "tax"))
            if not is_its_amount(
                table, row, quantity=shares, price=table.number(row, "price"), amount=table.number(row, "amount"),
                charges=sum((one or Decimal(0) for one in charges), Decimal(0)),
            ):  # fmt: skip
                continue
            ledger.move(
                row, table.day(row, "date"), thing, -abs(shares) if shares is not None and kind in _LESS else shares
            )
        else:
            unknown_kind(table, row, "type")
    sheet.notes.append(NO_CASH)
    out.drafts, out.summed = [ledger.done()], ledger.rows
    return out


SCALABLE = Format(
    "scalable",
    "Scalable Capital, transactions",
    "date;time;status;reference;description;assetType;type;isin;shares;price;amount",
    fits(COLUMNS),
    _read,
    summed=True,
)
