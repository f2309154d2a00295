"""Trade Republic: the transactions of an account. What it calls a symbol is an ISIN; shares and amounts have signs."""

from __future__ import annotations

from decimal import Decimal

from chordesk.models.statements import Kind
from chordesk.tools.holdings.formats.format import Format, Parsed, money_unit
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
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns

COLUMNS = columns(
    "date category type asset symbol shares amount currency",
    date="date; day",
    account="accounttype",
    category="category",
    type="type",
    asset="assetclass",
    name="name",
    symbol="symbol",
    shares="shares; number",
    price="price; number",
    amount="amount; number",
    fee="fee; number",
    tax="tax; number",
    currency="currency",
    id="transactionid",
)
_KINDS: dict[str, Kind] = {"STOCK": "share", "FUND": "fund", "ETF": "fund", "CRYPTO": "crypto"}
# Shares of these are a change with its sign; of the rows of cash they are what was held.
_ACTIONS = ("SPLIT", "REDEMPTION", "FINAL_MATURITY", "WARRANT_EXERCISE")
_HELD_ELSEWHERE = ("PRIVATE_FUND",)


def _read(sheet: Sheet) -> Parsed:
    table, out = activity_table(sheet, COLUMNS)
    ledgers: dict[str, Ledger] = {}
    for row in each_row(table, out, "id"):
        account = table.text(row, "account", 20)
        _row(table, row, ledgers.setdefault(account, Ledger(sheet)), out)
    several = len(ledgers) > 1
    out.drafts = [one.done(label=account.lower() if several else "") for account, one in ledgers.items()]
    out.summed = sum(one.rows for one in ledgers.values())
    return out


def _row(table: Table, row: Row, ledger: Ledger, out: Parsed) -> None:
    category, kind = table.raw(row, "category").strip().upper(), table.raw(row, "type").strip().upper()
    day, shares = table.day(row, "date"), table.number(row, "shares")
    if category == "TRADING" and kind in ("BUY", "SELL"):
        sign = 1 if kind == "BUY" else -1
        figures = {one: table.number(row, one) for one in ("price", "amount", "fee", "tax")}
        charges = (figures["fee"] or Decimal(0)).copy_abs() + (figures["tax"] or Decimal(0)).copy_abs()
        is_its_amount(table, row, quantity=shares, price=figures["price"], amount=figures["amount"], charges=charges)
        ledger.move(row, day, _thing(table, row), None if shares is None else sign * abs(shares))
    elif category == "CORPORATE_ACTION" and kind in _ACTIONS:
        ledger.move(row, day, _thing(table, row), shares)
        return
    elif category == "CASH":
        if table.raw(row, "asset").strip().upper() in _HELD_ELSEWHERE:
            out.leave(row, "a fund of private companies, whose shares are not in the file")
        ledger.seen(day)
    else:
        unknown_kind(table, row, "type" if category in ("TRADING", "CORPORATE_ACTION") else "category")
        return
    currency, unit = money_unit(table.sheet, row, table.raw(row, "currency"))
    paid = sum((table.number(row, one) or Decimal(0) for one in ("amount", "fee", "tax")), Decimal(0))
    ledger.pay(currency, paid / unit)


def _thing(table: Table, row: Row) -> Thing | None:
    asset = table.raw(row, "asset").strip().upper()
    kind = _KINDS.get(asset, "other")
    written = table.raw(row, "symbol").strip()
    currency = money_unit(table.sheet, row, table.raw(row, "currency") or "EUR")[0]
    if kind == "crypto":
        return thing_of(table, row, currency=currency, name=written, symbol=written, kind=kind)
    return thing_of(table, row, currency=currency, name=table.text(row, "name"), code=written, kind=kind)


TRADE_REPUBLIC = Format(
    "trade-republic",
    "Trade Republic, transactions",
    "datetime;date;account_type;category;type;asset_class;name;symbol;shares;price;amount",
    fits(COLUMNS),
    _read,
    summed=True,
)
