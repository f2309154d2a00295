"""Coinbase: the transactions of an account. Older files write no signs; a conversion is in the words of its note."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

from chordesk.tools.holdings.formats.format import Format, Parsed, money_unit
from chordesk.tools.holdings.ledgers.ledger import (
    NO_CASH,
    Ledger,
    Thing,
    activity_table,
    each_row,
    fits,
    is_its_amount,
    unknown_kind,
)
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns

COLUMNS = columns(
    "time type asset quantity",
    id="id",
    time="timestamp; day",
    type="transactiontype",
    asset="asset",
    quantity="quantitytransacted; number",
    currency="pricecurrency spotpricecurrency",
    price="priceattransaction spotpriceattransaction; number",
    subtotal="subtotal; number",
    notes="notes",
)
_MORE = (
    "buy", "receive", "deposit", "staking income", "rewards income", "reward income", "learning reward",
    "coinbase earn", "inflation reward", "advanced trade buy", "advance trade buy", "incentives rewards payout",
    "subscription rebate", "subscription rebates (24 hours)", "interest", "interest payout", "pro withdrawal",
    "exchange withdrawal", "dividend", "airdrop", "coinbase one reward",
)  # fmt: skip
_LESS = (
    "sell", "send", "withdrawal", "advanced trade sell", "advance trade sell", "pro deposit", "exchange deposit",
    "card spend", "subscription", "paid for an order",
)  # fmt: skip
# Pairs of rows that move coins between an account and what is staked of it, with their signs.
_SIGNED = ("retail staking transfer", "retail unstaking transfer", "retail eth2 deprecation", "vault transfer")
_CONVERTED = re.compile(
    r"Converted\s+([\d.,]+)\s+(\w+)\s+to\s+([\d.,]+)\s+(\w+)", re.IGNORECASE
)  # the point is its decimal mark
_MONEY = frozenset(("USD", "EUR", "GBP", "CAD", "CHF", "AUD", "SGD", "JPY", "BRL"))
_SPREAD = Decimal("0.03")  # between the price that a row states and what was paid
_NAMES = {"ETH2": "ETH", "CGLD": "CELO"}


def _read(sheet: Sheet) -> Parsed:
    table, out = activity_table(sheet, COLUMNS)
    ledger = Ledger(sheet)
    rows = list(each_row(table, out, "id"))
    is_signed = any((table.number(row, "quantity") or 0) < 0 for row in rows)
    for row in rows:
        _row(table, row, ledger, out, is_signed=is_signed)
    sheet.notes.append(NO_CASH)
    out.drafts, out.summed = [ledger.done()], ledger.rows
    return out


def _row(table: Table, row: Row, ledger: Ledger, out: Parsed, *, is_signed: bool) -> None:
    kind, day = " ".join(table.raw(row, "type").lower().split()), table.day(row, "time")
    asset, quantity = table.raw(row, "asset").strip().upper(), table.number(row, "quantity")
    if asset in _MONEY:
        out.leave(row, "money, of which the file does not say how much there is")
        ledger.seen(day)
    elif not is_its_amount(
        table, row, quantity=quantity, price=table.number(row, "price"), amount=table.number(row, "subtotal"),
        share=_SPREAD,
    ):  # fmt: skip
        return
    elif kind == "convert":
        _convert(table, row, day, ledger, quantity)
    elif kind in _SIGNED:
        ledger.move(row, day, _coin(table, row, asset), quantity)
    elif kind in (*_MORE, *_LESS):
        if quantity is not None and not is_signed:
            quantity = -quantity if kind in _LESS else quantity
        elif quantity is not None and (quantity < 0) != (kind in _LESS):
            table.sheet.error(row, f"a quantity of {quantity:f} does not fit {kind!r}", table.heading("quantity"))
            return
        ledger.move(row, day, _coin(table, row, asset), quantity)
    else:
        unknown_kind(table, row, "type")


def _convert(table: Table, row: Row, day: dt.date | None, ledger: Ledger, quantity: Decimal | None) -> None:
    found = _CONVERTED.search(table.raw(row, "notes"))
    amounts = [_amount(found[at]) for at in (1, 3)] if found is not None else [None, None]
    if found is None or None in amounts:
        table.sheet.error(row, "its note does not say what was converted into what", table.heading("notes"))
        return
    given, got = _coin(table, row, found[2].upper()), _coin(table, row, found[4].upper())
    if quantity is None or amounts[0] is None or abs(abs(quantity) - amounts[0]) > abs(quantity) / 1000:
        table.sheet.error(
            row, f"its note says {found[1]} {found[2]}, and its quantity is another", table.heading("notes")
        )
        return
    ledger.move(row, day, given, -abs(quantity))
    ledger.move(row, day, got, amounts[1])
    ledger.rows -= 1  # one row with two sides


def _amount(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", ""))
    except ArithmeticError:
        return None


def _coin(table: Table, row: Row, code: str) -> Thing | None:
    if not re.fullmatch(r"[A-Z0-9]{2,12}", code):
        table.sheet.error(row, f"{code[:20]!r} is no name of a coin", table.heading("asset"))
        return None
    name = _NAMES.get(code, code)
    currency = money_unit(table.sheet, row, table.raw(row, "currency") or "USD")[0]
    return Thing(name, name, "crypto", currency)


COINBASE = Format(
    "coinbase",
    "Coinbase, transactions",
    "Timestamp, Transaction Type, Asset, Quantity Transacted, Price Currency, Notes",
    fits(COLUMNS),
    _read,
    summed=True,
)
