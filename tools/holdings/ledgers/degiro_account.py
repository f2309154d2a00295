"""DEGIRO: Account.csv, whose headings and words are of the user's language. What was bought is in a text such as
"Koop 10 @ 33,9 USD"; quantity times price must be the amount, by which the text's notation is decided too."""

from __future__ import annotations

import re
from decimal import Decimal

from chordesk.tools.holdings.formats.format import Format, Parsed, money_unit
from chordesk.tools.holdings.ledgers.ledger import Ledger, activity_table, each_row, fits, thing_of
from chordesk.tools.holdings.sheets import Mark, Row, Sheet, Table, columns
from chordesk.tools.market.files.notation import plain_number

COLUMNS = columns(
    "date valued name isin description balance",
    date="datum date data fecha; day",
    valued="valutadatum valuedate datedevaleur datavaluta fechavalor datavalor",
    name="product produkt produit prodotto producto produto",
    isin="isin codeisin",
    description="omschrijving description beschreibung descrizione descripcion descricao",
    change="mutatie change anderung mouvements variazioni variacion mudanca",
    balance="saldo balance solde",
    order="orderid",
)
_WITH_MONEY = {
    **COLUMNS,
    "amount": COLUMNS["balance"]._replace(names=(), kind="number", required=False),
    "left": COLUMNS["balance"]._replace(names=(), kind="number", required=False),
}
_MORE = ("koop", "buy", "kauf", "compra", "achat", "acquisto", "kupno", "kjøp", "køb", "köp")
_LESS = ("verkoop", "sell", "verkauf", "venta", "venda", "vente", "vendita", "sprzedaż", "salg", "sälj")
_TRADE = re.compile(
    rf"(?:^|:\s*)({'|'.join((*_MORE, *_LESS))})\s+([\d.,'\u00a0 ]*\d)\s.*?(?:@|zu je)\s?([\d.,]*\d)\s*([A-Z]{{3}})",
    re.IGNORECASE,
)
# Words of rows with a product that move money alone: dividends, taxes, fees, exchange of money.
_MONEY = re.compile(
    r"divid|kosten|fee|gebühr|costi|costo|frais|comis|tax|steuer|belasting|impuesto|imposta|impôt|imposto|valuta|"
    r"währung|devise|divisa|câmbio|currency|fx |sweep|coupon|rente|interest|zins|interes|stamp|overboeking|transfer",
    re.IGNORECASE,
)


def _read(sheet: Sheet) -> Parsed:
    table, out = activity_table(sheet, _WITH_MONEY, days="dmy", least=3)
    for ours, before in (("amount", "change"), ("left", "balance")):
        table.places[ours] = table.places[before] + 1  # each heading goes over two columns: currency, amount
    _understand_money(table)
    ledger = Ledger(sheet)
    left: dict[str, Decimal] = {}
    for row in each_row(table, out, "order"):
        if not table.raw(row, "date").strip():
            out.leave(row, "the rest of the row before it")
            continue
        _row(table, row, ledger)
        currency, balance = table.raw(row, "balance").strip(), table.number(row, "left")
        if currency and balance is not None and currency not in left:  # the newest row is the first
            left[currency] = balance
    for currency, amount in left.items():
        code, unit = money_unit(sheet, sheet.rows[-1], currency)
        ledger.pay(code, amount / unit)
    out.drafts, out.summed = [ledger.done()], ledger.rows
    return out


def _understand_money(table: Table) -> None:
    """Put amounts in plain form by the file's decimal mark: some rows of one file have been seen with the other one."""
    said = table.sheet.hints.decimal
    for row in table.rows:
        known = table.known.setdefault(row.line, {})
        for ours in ("amount", "left"):
            text = row.cell(table.places.get(ours)).strip()
            mark: Mark = said or ("," if "," in text and text.rfind(",") > text.rfind(".") else ".")
            known[ours] = plain_number(text, mark)


def _row(table: Table, row: Row, ledger: Ledger) -> None:
    text, day = " ".join(table.raw(row, "description").split()), table.day(row, "date")
    found = _TRADE.search(text)
    if found is None:
        if table.raw(row, "isin").strip() and not _MONEY.search(text):
            table.sheet.error(
                row, f"{text[:50]!r} is a kind of row that is not known, so that the sum may be wrong",
                table.heading("description"),
            )  # fmt: skip
        ledger.seen(day)
        return
    currency, _ = money_unit(table.sheet, row, found[4])
    quantity = _quantity(table, row, found[2], found[3])
    if quantity is None:
        return
    thing = thing_of(table, row, currency=currency, name=table.text(row, "name"), code=table.raw(row, "isin"))
    ledger.move(row, day, thing, -quantity if found[1].lower() in _LESS else quantity)


def _quantity(table: Table, row: Row, quantity: str, price: str) -> Decimal | None:
    """Return the quantity in the reading whose product with the price is the amount. Of an exchange of one name for
    another, which has no amount, the price shows the mark."""
    amount = table.number(row, "amount")
    fitting: dict[Decimal, Mark] = {}
    for mark in _MARKS:
        one, cost = _number(quantity, mark), _number(price, mark)
        if one is None or cost is None:
            continue
        if not amount or abs(one * cost - abs(amount)) <= Decimal("0.02") + abs(amount) / 500:
            fitting.setdefault(one, mark)
    said = table.sheet.hints.decimal
    found = [one for one, mark in fitting.items() if len(fitting) == 1 or mark == said]
    if len(found) == 1:
        return found[0]
    why = f"{quantity} at {price} is not the amount" if not fitting else f"{quantity!r} has two meanings: --decimal"
    table.sheet.error(row, f"{why} {'' if amount is None else f'{amount:f}'}".strip(), table.heading("description"))
    return None


_MARKS: tuple[Mark, ...] = (",", ".")


def _number(text: str, mark: Mark) -> Decimal | None:
    group = "," if mark == "." else "."
    if text.lstrip().startswith(f"0{group}"):  # no thousands begin with a zero
        return None
    try:
        return Decimal(plain_number(text, mark))
    except ArithmeticError:
        return None


DEGIRO_ACCOUNT = Format(
    "degiro-account",
    "DEGIRO, Account.csv",
    "Datum, Tijd, Valutadatum, Product, ISIN, Omschrijving, FX, Mutatie, , Saldo, , Order Id, in its languages",
    fits(COLUMNS),
    _read,
    summed=True,
)
