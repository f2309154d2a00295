"""The plain format, for everybody: a table with `symbol` or `isin`, and `quantity`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from chordesk.models.market import multiplier_of
from chordesk.models.statements import Draft, Holding, Kind
from chordesk.models.text import one_line
from chordesk.tools.holdings.formats.format import (
    DOLLARS,
    Format,
    Parsed,
    check_total,
    drafts_of,
    holding,
    isin_of,
    money_unit,
    unknown_option,
)
from chordesk.tools.holdings.names import ISIN, cash_of, is_cusip, is_total, kind_of, option, ticker
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns, find, near, understood
from chordesk.tools.market.files.notation import EMPTY

COLUMNS = columns(
    "quantity",
    symbol="symbol ticker tickersymbol",
    isin="isin",
    quantity="quantity shares units qty; number",
    price="price lastprice currentprice; number",
    value="value marketvalue currentvalue mktvalue mktval positionvalue; number",
    currency="currency ccy",
    cost="cost costbasis totalcost; number",
    average="averagecost avgcost averageprice unitcost; number",
    as_of="asof date asofdate; day",
    account="account accountname",
    number="accountnumber",
    name="name description",
    kind="kind type assetclass",
    rate="rate fxrate; number",
    side="side positionside direction longshort",
)
_LONG, _SHORT = ("long", "l", "buy", "b", "bought"), ("short", "s", "sell", "sold", "written")


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
    _note_unread(table)
    totals: list[_Sum] = []
    for row in table.rows:
        if not table.whole(row):
            continue
        if _is_sum(table, row):
            totals.append(_Sum(row, table.number(row, "value"), {id(one): len(one.holdings) for one in found.values()}))
            continue
        draft = drafts_of(found, table.raw(row, "number"), table.text(row, "account", 40))
        before = len(draft.holdings)
        _position(sheet, table, row, draft)
        if len(draft.holdings) > before and (day := table.day(row, "as_of")) is not None:
            days.setdefault(draft.number or draft.label, {}).setdefault(day, []).append(row.line)
    out.drafts = list(found.values())
    for at, one in enumerate(totals):
        _check(table, out, one, totals[at - 1] if at else None)
    for draft in out.drafts:
        _newest(sheet, table, draft, days.get(draft.number or draft.label, {}), out)
    return out


def _note_unread(table: Table) -> None:
    """Say which columns are not read: a value under a heading that nobody here knows would be missing unseen."""
    taken = {*table.places.values(), *(at for places in table.rivals().values() for at in places)}
    left = [one_line(cell, 30) for at, cell in enumerate(table.header.cells) if cell.strip() and at not in taken]
    if left:
        table.sheet.notes.append(f"not read: the columns {', '.join(left)}")


def _is_sum(table: Table, row: Row) -> bool:
    """Whether a row is a sum: in the column of symbols or ISINs, or in any other where it has neither."""
    codes = [table.raw(row, ours).strip() for ours in ("symbol", "isin")]
    if any(is_total(one) for one in codes):
        return True
    return not any(codes) and any(is_total(table.raw(row, ours)) for ours in ("name", "account", "number"))


class _Sum(NamedTuple):
    """A row of sums. above: how many holdings each account had before it."""

    row: Row
    stated: Decimal | None
    above: dict[int, int]


def _check(table: Table, out: Parsed, total: _Sum, before: _Sum | None) -> None:
    """Require that a row of sums is that of the rows since the one before it, of all rows above it, of an account, or
    of the whole file."""
    sheet, drafts = table.sheet, out.drafts
    since: list[Holding] = []
    above: list[Holding] = []
    for draft in drafts:
        end = total.above.get(id(draft), 0)
        above += draft.holdings[:end]
        since += draft.holdings[before.above.get(id(draft), 0) if before else 0 : end]
    everything = [one for draft in drafts for one in draft.holdings]
    groups = [rows for rows in (since, above, everything, *(one.holdings for one in drafts)) if rows]
    known = [(rows, found) for rows in groups if (found := _worth(rows)) is not None]
    if "value" not in table.places:
        sheet.notes.append(f"row {total.row.line}: the total is not checked: the file has no column of values")
        return
    if not known:
        sheet.notes.append(f"row {total.row.line}: the total is not checked: not all rows have a value in one currency")
        return
    stated = total.stated
    rows, found = next(
        ((rows, found) for rows, found in known if stated is not None and near(stated, found, len(rows))), known[0]
    )
    check_total(sheet, drafts[0], total.row, "the file", rows[0].currency, stated, found, len(rows))


def _worth(rows: Sequence[Holding]) -> Decimal | None:
    """Return what rows of one currency come to, by their values or else by quantity and price."""
    if len({one.currency for one in rows}) > 1:
        return None
    found = Decimal(0)
    for one in rows:
        value = one.value
        if value is None and one.price is not None:
            value = one.quantity * one.price * Decimal(str(multiplier_of(one.symbol)) if one.symbol else 1)
        if value is None:
            return None
        found += value
    return found


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
        dated = kept | earlier
        for one in draft.holdings:
            if one.line not in dated:
                sheet.error(one.line, f"has no day, and other rows are of {min(days)} and of {max(days)}")
        draft.holdings = [one for one in draft.holdings if one.line in kept]


_AMOUNTS = ("price", "value", "average", "cost")


def _money(table: Table, row: Row, of_cash: str) -> tuple[str, dict[str, int]]:
    """Return the currency of a row, and how many of the unit of each column make one of it. A column may state it in
    its heading or beside the figure; a dollar sign alone is that of any dollar."""
    said = table.raw(row, "currency").strip()
    own = {ours: found for ours in _AMOUNTS if (found := table.money(row, ours)) and table.raw(row, ours).strip()}
    first = next(iter(own.values()), "USD")
    currency, unit = money_unit(table.sheet, row, said or of_cash or first)
    units = dict.fromkeys(_AMOUNTS, unit)
    for ours, written in own.items():
        if written in DOLLARS and currency.endswith("D"):
            continue
        found, units[ours] = money_unit(table.sheet, row, written)
        if found != currency:
            text = f"is in {found}, and the row in {currency}"
            table.sheet.error(row, f"{table.raw(row, ours)!r} {text}", table.heading(ours))
    return currency, units


def _position(sheet: Sheet, table: Table, row: Row, draft: Draft) -> None:
    written, code = table.raw(row, "symbol").strip(), table.raw(row, "isin").strip()
    if not written and not code:
        sheet.error(row, "names no symbol and no ISIN", table.heading("symbol"))
        return
    cash = cash_of(written)
    currency, units = _money(table, row, cash or "")
    if cash and cash != currency:
        sheet.error(row, f"{one_line(written, 30)!r} is in {cash}, and the row in {currency}", table.heading("symbol"))
    stated: Kind | None = kind_of(table.raw(row, "kind"))
    isin = isin_of(sheet, row, written if ISIN.fullmatch(written.upper()) and not code else code)
    contract = option(written)
    is_cash = stated == "cash" or cash is not None
    if not is_cash and contract is None and not isin and unknown_option(sheet, row, written):
        return
    symbol = contract or (None if is_cash or stated in ("crypto", "other") else ticker(written, currency))
    quantity, average, cost = table.number(row, "quantity"), table.number(row, "average"), table.number(row, "cost")
    price, value = table.number(row, "price"), table.number(row, "value")
    price = None if price is None else price / units["price"]
    value = None if value is None else value / units["value"]
    average = None if average is None else average / units["average"]
    cost = None if cost is None else cost / units["cost"]
    if quantity is not None and (side := table.raw(row, "side").strip().lower()) not in EMPTY:
        if side not in (*_LONG, *_SHORT) or (side in _LONG and quantity < 0):
            sheet.error(row, f"{side[:20]!r} does not fit {quantity:f}; write long or short", table.heading("side"))
            return
        if side in _SHORT:
            quantity, cost = -abs(quantity), None if cost is None else -abs(cost)
    size = Decimal(100) if contract else Decimal(1)
    if cost is None and average is not None and quantity is not None:
        cost = quantity * average * size
    if is_cash and value is None:
        value = quantity if price is None or quantity is None else quantity * price
    paper: Kind = "other" if is_cusip(written) else "share"
    made = holding(
        table, row, name=table.text(row, "name") or written or code, currency=currency, symbol=symbol, isin=isin,
        kind="cash" if is_cash else "option" if contract else stated or paper, quantity=quantity,
        price=price, value=value, cost=cost, rate=table.number(row, "rate"),
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
