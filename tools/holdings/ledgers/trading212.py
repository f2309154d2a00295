"""Trading 212: the history of an account. Its columns and their order vary by year."""

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
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns

COLUMNS = columns(
    "action time ticker shares",
    action="action",
    time="time; day",
    isin="isin",
    ticker="ticker",
    name="name",
    shares="noofshares; number",
    price="priceshare; number",
    currency="currencypriceshare",
    rate="exchangerate",
    total="total; number",
    paid="currencytotal",
    id="id",
)
_MORE = (
    "market buy",
    "limit buy",
    "stop buy",
    "stop limit buy",
    "stock distribution",
    "stock split open",
    "transfer in",
)
_LESS = ("market sell", "limit sell", "stop sell", "stop limit sell", "stock split close", "transfer out")
_MONEY = (
    "deposit", "withdrawal", "interest", "lending interest", "dividend", "currency conversion", "card ", "new card",
    "spending cashback", "cashback", "result adjustment", "fee", "tax",
)  # fmt: skip


_CHARGES = Decimal("0.02")  # stamp duty, conversion and other fees, of which each has a column of another name


_PENCE = Decimal(50)  # beyond it a rate is one of pence: pounds, rands and shekels are nearer to euros and dollars


def _rates(table: Table, row: Row) -> list[Decimal]:
    """Return what a price may have to be multiplied by to be in the currency of the total: files of different years
    state the rate one way round or the other, and of pence that of the pound too. Nothing where it is not stated."""
    currency, unit = money_unit(table.sheet, row, table.raw(row, "currency"))
    try:
        rate = Decimal(table.raw(row, "rate").strip())
    except ArithmeticError:  # "Not available"
        rate = Decimal(1) if currency == (table.raw(row, "paid").strip() or table.unit("total")) else Decimal(0)
    if not rate.is_finite() or rate <= 0:
        return []
    if unit > 1 and (rate > _PENCE or rate < 1 / _PENCE):  # of pence themselves
        unit = 1
    return [1 / rate / unit, rate / unit]


def _read(sheet: Sheet) -> Parsed:
    table, out = activity_table(sheet, COLUMNS)
    ledger = Ledger(sheet)
    for row in each_row(table, out, "id"):
        action, day = table.raw(row, "action").strip().lower(), table.day(row, "time")
        if action not in (*_MORE, *_LESS):
            ledger.seen(day) if action.startswith(_MONEY) else unknown_kind(table, row, "action")
            continue
        currency, _ = money_unit(sheet, row, table.raw(row, "currency"))
        thing = thing_of(
            table, row, currency=currency, name=table.text(row, "name"), symbol=table.raw(row, "ticker"),
            code=table.raw(row, "isin"),
        )  # fmt: skip
        shares = table.number(row, "shares")
        is_its_amount(
            table, row, quantity=shares, price=table.number(row, "price"), amount=table.number(row, "total"),
            factors=_rates(table, row), share=_CHARGES,
        )  # fmt: skip
        ledger.move(row, day, thing, -abs(shares) if shares is not None and action in _LESS else shares)
    sheet.notes.append(NO_CASH)
    out.drafts, out.summed = [ledger.done()], ledger.rows
    return out


TRADING212 = Format(
    "trading212",
    "Trading 212, history",
    "Action, Time, ISIN, Ticker, Name, No. of shares, Price / share",
    fits(COLUMNS),
    _read,
    summed=True,
)
