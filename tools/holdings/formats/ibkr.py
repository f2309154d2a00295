"""Interactive Brokers: the activity statement as CSV, whose first column names the section of each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from chordesk.models.errors import UsageError
from chordesk.models.statements import Draft, Holding, Kind
from chordesk.tools.holdings.formats.format import (
    Format,
    Parsed,
    american_day,
    check_total,
    drafts_of,
    holding,
    isin_of,
    money_unit,
    unknown_option,
)
from chordesk.tools.holdings.names import ISIN, kind_of, option, ticker
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns, places_of, understood

_POSITIONS = columns(
    "which category currency symbol quantity value",
    section="openpositions",
    what="header",
    which="datadiscriminator",
    account="account",
    category="assetcategory",
    currency="currency",
    symbol="symbol",
    quantity="quantity; number",
    size="mult; number",
    cost="costbasis; number",
    price="closeprice; number",
    value="value; number",
)
_CASH = columns(
    "what currency amount", what="currencysummary", account="account", currency="currency", amount="total; number"
)
_NAMES = columns(
    "category symbol name", category="assetcategory", symbol="symbol", name="description", code="securityid"
)
_RATES = columns("currency amount", currency="currency", amount="exchangerate; number")
_WORTH = columns("category amount", account="account", category="assetclass", amount="currenttotal; number")
_CLASSES: Mapping[str, Kind] = {"cash": "cash", "stock": "share", "options": "option", "funds": "fund"}
_IN_BASE = "Base Currency Summary"
_SECTIONS = {
    "Open Positions": _POSITIONS,
    "Cash Report": _CASH,
    "Financial Instrument Information": _NAMES,
    "Base Currency Exchange Rate": _RATES,
    "Net Asset Value": _WORTH,
}


def _fits(sheet: Sheet) -> bool:
    return bool(sheet.rows) and [one.strip() for one in sheet.rows[0].cells[:2]] == ["Statement", "Header"]


def _stated(sheet: Sheet, section: str, name: str) -> tuple[Row, str] | None:
    rows = (row for row in sheet.rows if row.cell(0) == section and row.cell(1) == "Data" and row.cell(2) == name)
    return next(((row, row.cell(3)) for row in rows), None)


def _tables(sheet: Sheet) -> Iterator[tuple[str, Table]]:
    """Yield the parts of the sections that are read: one for each header, with the rows below it."""
    known: dict[str, Table] = {}
    for row in sheet.rows:
        section, what = row.cell(0), row.cell(1)
        if section not in _SECTIONS:
            continue
        if what == "Header":
            wanted = _SECTIONS[section]
            places = places_of(row, wanted)
            if places is None and wanted is _WORTH:  # its second table, the rate of return
                known[section] = Table(sheet, wanted, row, {})
                continue
            if places is None:
                lacks = ", ".join(ours for ours, one in wanted.items() if one.required)
                sheet.error(row, f"the section {section} has other columns; wanted are {lacks}")
                continue
            known[section] = Table(sheet, wanted, row, places)
            yield section, known[section]
        elif section in known:
            known[section].rows.append(row)
        else:
            sheet.error(row, f"the section {section} has no header: the file may be cut")


def _read(sheet: Sheet) -> Parsed:
    title = _stated(sheet, "Statement", "Title")
    if title is not None and "transaction history" in title[1].lower():
        raise UsageError(
            f"{sheet.name}, row {title[0].line}: a transaction history has no positions",
            remedy="export the activity statement, which has Open Positions, or a Flex query",
        )
    out, found = Parsed(), dict[str, Draft]()
    period = _stated(sheet, "Statement", "Period")
    as_of = american_day(period[1].rpartition(" - ")[2]) if period is not None else None
    number = _stated(sheet, "Account Information", "Account")
    base = _stated(sheet, "Account Information", "Base Currency")
    tables = list(_tables(sheet))
    if not any(section == "Open Positions" for section, _ in tables) and not any(s == "Cash Report" for s, _ in tables):
        raise UsageError(
            f"{sheet.name}: this statement has neither Open Positions nor Cash Report",
            remedy="export it with these sections",
        )
    understood([table for _, table in tables])
    codes = dict(_names(tables))
    own = number[1].split()[0] if number is not None and number[1].split() else ""
    for section, table in tables:
        if section == "Base Currency Exchange Rate":
            _rates(table, out)
    if base is not None:
        out.rates[base[1]] = Decimal(1)
    for section, table in tables:
        if section == "Open Positions":
            _positions(sheet, table, out, found, own, codes)
        elif section == "Cash Report":
            _cash(table, out, found, own, base[1] if base is not None else "")
    if not sheet.hints.without_total:
        _require_whole(sheet, tables, out, found, base[1] if base is not None else "")
        _require_worth(sheet, tables, out, found)
    for one in found.values():
        one.as_of = as_of
    out.drafts = list(found.values())
    return out


def _names(tables: list[tuple[str, Table]]) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield (category, symbol) with (name, ISIN or an empty text): one row may have several symbols by comma."""
    for section, table in tables:
        if section == "Financial Instrument Information":
            for row in table.rows:
                code = table.raw(row, "code").strip()  # of a US share perhaps its CUSIP
                code = (isin_of(table.sheet, row, code) or "") if ISIN.fullmatch(code) else ""
                for symbol in table.raw(row, "symbol").split(","):
                    yield (table.raw(row, "category"), symbol.strip()), (table.text(row, "name"), code)


def _rates(table: Table, out: Parsed) -> None:
    for row in table.rows:
        rate = table.number(row, "amount")
        if row.cell(1) == "Data" and rate:
            out.rates[table.raw(row, "currency")] = rate


def _positions(
    sheet: Sheet,
    table: Table,
    out: Parsed,
    found: dict[str, Draft],
    own: str,
    codes: dict[tuple[str, str], tuple[str, str]],
) -> None:
    since: list[Holding] = []  # since the last total of their category and currency
    group: tuple[str, str, int, Draft] | None = None
    for row in table.rows:
        what, which = row.cell(1), table.raw(row, "which")
        if what == "Data" and which == "Summary":
            if not table.whole(row):
                continue
            draft = drafts_of(found, table.raw(row, "account") or own)
            made = _position(sheet, table, row, codes, out)
            category, currency = table.raw(row, "category"), table.raw(row, "currency")
            if group is not None and group[:2] != (category, currency):
                _require(sheet, group)
                since = []
            group = (category, currency, row.line, draft)
            if made is not None:
                draft.holdings.append(made)
                since.append(made)
        elif what == "Total" and group is not None and table.raw(row, "currency") == group[1]:
            stated = table.number(row, "value")
            rows = sum((one.value or Decimal(0) for one in since), Decimal(0))
            check_total(sheet, group[3], row, f"{group[0]} in {group[1]}", group[1], stated, rows, len(since))
            group, since = None, []
    if group is not None:
        _require(sheet, group)


def _require(sheet: Sheet, group: tuple[str, str, int, Draft]) -> None:
    if not sheet.hints.without_total:
        remedy = "--without-total takes it all the same"
        sheet.error(group[2], f"has no total of {group[0]} in {group[1]}: the file may be cut; {remedy}")


def _position(
    sheet: Sheet, table: Table, row: Row, codes: dict[tuple[str, str], tuple[str, str]], out: Parsed
) -> Holding | None:
    category, written = table.raw(row, "category"), table.raw(row, "symbol").strip()
    currency, unit = money_unit(sheet, row, table.raw(row, "currency"))
    name, code = codes.get((category, written), ("", ""))
    kind: Kind = kind_of(category) or "other"
    contract = option(written) if kind == "option" else None
    if kind == "option" and contract is None:
        if not unknown_option(sheet, row, written):
            sheet.error(row, f"{written[:40]!r} is an option contract in an unknown form")
        return None
    size = table.number(row, "size")
    price, value = table.number(row, "price"), table.number(row, "value")
    return holding(
        table, row, name=name or written, kind=kind, currency=currency, isin=code or None,
        symbol=contract or (ticker(written, currency) if kind == "share" else None),
        quantity=table.number(row, "quantity"), price=None if price is None else price / unit,
        value=None if value is None else value / unit, cost=table.number(row, "cost"), multiplier=size,
        rate=out.dollars(currency),
    )  # fmt: skip


def _cash(table: Table, out: Parsed, found: dict[str, Draft], own: str, base: str) -> None:
    stated: dict[str, tuple[Row, Decimal]] = {}
    held: dict[str, list[Holding]] = {}
    for row in table.rows:
        currency, account = table.raw(row, "currency"), table.raw(row, "account") or own
        if row.cell(1) != "Data" or table.raw(row, "what") != "Ending Cash":
            continue
        amount = table.number(row, "amount")
        if currency == _IN_BASE and amount is not None:
            stated[account] = (row, amount)
        if not amount or len(currency) != 3:
            continue
        made = holding(
            table, row, name="Cash", kind="cash", currency=currency, value=amount, rate=out.dollars(currency)
        )
        if made is not None:
            drafts_of(found, account).holdings.append(made)
            held.setdefault(account, []).append(made)
    for account, (row, whole) in stated.items():
        _check_cash(table.sheet, row, whole, held.get(account, []), out.rates, base)


def _check_cash(
    sheet: Sheet, row: Row, stated: Decimal, held: Sequence[Holding], rates: Mapping[str, Decimal], base: str
) -> None:
    """Hold the sum that the file states in its base currency against the rows of all currencies, up to the rounding of
    each rate: half of its last place, times the amount."""
    if not base or any(one.currency not in rates for one in held):
        return  # what lacks a rate is told as such
    total, rounding = Decimal(0), Decimal("0.01") * (len(held) + 1)
    for one in held:
        rate = rates[one.currency]
        total += one.quantity * rate
        if one.currency != base:
            rounding += abs(one.quantity) * Decimal(1).scaleb(int(rate.as_tuple().exponent)) / 2
    if abs(stated - total) > rounding:
        sheet.error(row, f"the file's cash in {base} is {stated:,.2f}, and its rows come to {total:,.2f}")


def _require_whole(
    sheet: Sheet, tables: list[tuple[str, Table]], out: Parsed, found: dict[str, Draft], base: str
) -> None:
    """A statement that was cut between two sections shows no broken row. It lists its positions before what they are
    called and what their currencies are worth, so that these are missing then."""
    rows = [one for draft in found.values() for one in draft.holdings]
    names = any(section == "Financial Instrument Information" for section, _ in tables)
    if not names and any(one.kind != "cash" for one in rows):
        lacks = "section Financial Instrument Information"
    elif base and (unrated := sorted({one.currency for one in rows} - out.rates.keys())):
        lacks = f"exchange rate of {', '.join(unrated)}"
    else:
        return
    sheet.error(sheet.rows[-1], f"has no {lacks}: the file may be cut; --without-total takes it all the same")


def _require_worth(sheet: Sheet, tables: list[tuple[str, Table]], out: Parsed, found: dict[str, Draft]) -> None:
    """Hold what the statement says that its cash, shares, options and funds are worth against the rows of each: a
    section that was not exported shows no broken row. Half a per cent is left for the rounding of rates."""
    for section, table in tables:
        if section != "Net Asset Value":
            continue
        for row in table.rows:
            kind = _CLASSES.get(table.raw(row, "category").strip().lower())
            stated = table.number(row, "amount")
            account = table.raw(row, "account")
            held = [one for name, draft in found.items() if account in ("", name) for one in draft.holdings]
            rows = [one for one in held if one.kind == kind]
            if kind is None or stated is None or any(one.currency not in out.rates for one in rows):
                continue  # what lacks a rate is told as such
            worth = sum(((one.value or Decimal(0)) * out.rates[one.currency] for one in rows), Decimal(0))
            if abs(stated - worth) > abs(stated) / 200 + Decimal("0.01") * (len(rows) + 1):
                what = f"{table.raw(row, 'category').strip()} in the Net Asset Value"
                text = f"the file's {what} is {stated:,.2f}, and its rows come to {worth:,.2f}: perhaps a section"
                sheet.error(row, f"{text} was not exported, or the file was cut; --without-total takes it all the same")


IBKR = Format(
    "ibkr",
    "Interactive Brokers, activity statement",
    "Statement, Header, Field Name, Field Value; with the section Open Positions",
    _fits,
    _read,
)
