"""The plain format, for everybody: a table with `symbol` or `isin`, and `quantity`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from chordesk.models.statements import Draft, Kind
from chordesk.tools.holdings.formats.format import (
    Format,
    Parsed,
    check_total,
    drafts_of,
    holding,
    isin_of,
    money_unit,
    total_value,
    unknown_option,
)
from chordesk.tools.holdings.names import ISIN, is_total, kind_of, option, ticker
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns, find, understood

COLUMNS = columns(
    "quantity",
    symbol="symbol ticker tickersymbol",
    isin="isin",
    quantity="quantity shares units qty; number",
    price="price lastprice currentprice; number",
    value="value marketvalue currentvalue; number",
    currency="currency ccy",
    cost="cost costbasis totalcost; number",
    average="averagecost avgcost averageprice unitcost; number",
    as_of="asof date asofdate; day",
    account="account accountname",
    number="accountnumber",
    name="name description",
    kind="kind type assetclass",
    rate="rate fxrate; number",
)


def _fits(sheet: Sheet) -> bool:
    found = find(sheet, COLUMNS, most=20)
    return found is not None and bool({"symbol", "isin"} & found[1].places.keys())


def _read(sheet: Sheet) -> Parsed:
    at, table = find(sheet, COLUMNS) or (0, None)
    assert table is not None
    out, found = Parsed(), dict[str, Draft]()
    days: dict[str, dict[dt.date, list[int]]] = {}
    for row in sheet.rows[at + 1 :]:
        (table.rows.append(row) if len(row.cells) > 1 else out.leave(row, "a line of words below the table"))
    understood([table])
    total: tuple[Row, Decimal | None] | None = None
    for row in table.rows:
        if not table.whole(row):
            continue
        if is_total(table.raw(row, "symbol")) or (
            not table.raw(row, "isin").strip() and is_total(table.raw(row, "name"))
        ):
            total = (row, table.number(row, "value"))
            continue
        draft = drafts_of(found, table.raw(row, "number"), table.text(row, "account", 40))
        before = len(draft.holdings)
        _position(sheet, table, row, draft)
        if len(draft.holdings) > before and (day := table.day(row, "as_of")) is not None:
            days.setdefault(draft.number or draft.label, {}).setdefault(day, []).append(row.line)
    out.drafts = list(found.values())
    if total is not None:
        _check(sheet, out, *total)
    for draft in out.drafts:
        _newest(sheet, table, draft, days.get(draft.number or draft.label, {}), out)
    return out


def _check(sheet: Sheet, out: Parsed, row: Row, stated: Decimal | None) -> None:
    rows = [one for draft in out.drafts for one in draft.holdings]
    currencies = {one.currency for one in rows}
    if len(currencies) == 1 and out.drafts and all(one.value is not None for one in rows):
        check_total(sheet, out.drafts[0], row, "the file", currencies.pop(), stated, total_value(rows), len(rows))
    else:
        sheet.notes.append(f"row {row.line}: the total is not checked: not all rows have a value in one currency")


def _newest(sheet: Sheet, table: Table, draft: Draft, days: dict[dt.date, list[int]], out: Parsed) -> None:
    """Keep the rows of the last day, where rows are of several."""
    if not days:
        return
    draft.as_of = max(days)
    kept = set(days[draft.as_of])
    earlier = {line for lines in days.values() for line in lines} - kept
    older = [row for row in table.rows if row.line in earlier]
    for row in older:
        out.leave(row, f"of an earlier day than {draft.as_of}")
    if len(days) > 1:
        draft.holdings = [one for one in draft.holdings if one.line in kept]


def _position(sheet: Sheet, table: Table, row: Row, draft: Draft) -> None:
    written, code = table.raw(row, "symbol").strip(), table.raw(row, "isin").strip()
    if not written and not code:
        sheet.error(row, "names no symbol and no ISIN", table.heading("symbol"))
        return
    currency, unit = money_unit(sheet, row, table.raw(row, "currency") or "USD")
    stated: Kind | None = kind_of(table.raw(row, "kind"))
    isin = isin_of(sheet, row, written if ISIN.fullmatch(written.upper()) and not code else code)
    contract = option(written)
    is_cash = stated == "cash" or written.upper() in ("$CASH", "CASH")
    if not is_cash and contract is None and not isin and unknown_option(sheet, row, written):
        return
    symbol = contract or (None if is_cash or stated in ("crypto", "other") else ticker(written, currency))
    quantity, average, cost = table.number(row, "quantity"), table.number(row, "average"), table.number(row, "cost")
    price, value = table.number(row, "price"), table.number(row, "value")
    size = Decimal(100) if contract else Decimal(1)
    if cost is None and average is not None and quantity is not None:
        cost = quantity * average * size
    if is_cash and value is None:
        value = quantity if price is None or quantity is None else quantity * price
    made = holding(
        table, row, name=table.text(row, "name") or written or code, currency=currency, symbol=symbol, isin=isin,
        kind="cash" if is_cash else "option" if contract else stated or "share", quantity=quantity,
        price=None if price is None else price / unit, value=None if value is None else value / unit,
        cost=None if cost is None else cost / unit, rate=table.number(row, "rate"),
    )  # fmt: skip
    if made is not None:
        draft.holdings.append(made)


PLAIN = Format(
    "plain",
    "plain table",
    "symbol or isin, and quantity; also price, value, currency, cost or average_cost, as_of, account, name, kind, rate",
    _fits,
    _read,
)
