"""Portfolio Performance: transactions as CSV, in the user's language, and older exports of Trade Republic."""

from __future__ import annotations

from chordesk.tools.holdings.formats.format import Format, Parsed, money_unit
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
    "date type value shares isin tax",
    date="date datum fecha data; day",
    type="type typ tipo transactietype",
    value="value wert valor valeur valore waarde waardenetto; number",
    currency="transactioncurrency buchungswahrung divisadelatransaccion devisedeloperation valutaoperazione "
    "transactievaluta",
    shares="shares stuck cantidad parts azioni aantal; number",
    isin="isin",
    ticker="tickersymbol simbolodelticker symboleboursier simbolotitolo",
    tax="taxes steuern impuestos impotstaxes tasse belasting",
    name="securityname wertpapiername nombredelvalor nomdutitre nometitolo effect note notiz nota opmerking",
)
_MORE = (
    "buy", "kauf", "compra", "achat", "aankoop", "delivery (inbound)", "einlieferung", "entrega (entrante)",
    "distribution (entrante)", "trasferimento titoli (in entrata)", "inkomende levering",
)  # fmt: skip
_LESS = (
    "sell", "verkauf", "venta", "vente", "vendi", "verkoop", "delivery (outbound)", "auslieferung",
    "entrega (saliente)", "distribution (sortante)", "trasferimento titoli (in uscita)", "uitgaande levering",
)  # fmt: skip
_IN = (
    "transfer (inbound)", "umbuchung (eingang)", "traspaso (entrada)", "transferencia (entrada)",
    "transfert (entrant)", "trasferimento (in entrata)", "inkomende overboeking",
)  # fmt: skip
_OUT = (
    "transfer (outbound)", "umbuchung (ausgang)", "traspaso (salida)", "transferencia (salida)", "transfert (sortant)",
    "trasferimento (in uscita)", "uitgaande overboeking",
)  # fmt: skip
_MONEY = (
    "deposit", "dividend", "fees", "fees refund", "interest", "interest charge", "withdrawal", "taxes", "tax refund",
    "einlage", "dividende", "gebühren", "gebührenerstattung", "zinsen", "zinsbelastung", "entnahme", "steuern",
    "steuerrückerstattung", "depósito", "dividendo", "comisiones", "reembolso de comisiones", "intereses",
    "cargo por intereses", "retirada", "impuestos", "devolución de impuestos", "dépôt", "dividendes", "frais",
    "remboursement de frais", "intérêts", "frais d'intérêts", "retrait", "impôts / taxes",
    "remboursement impôts / taxes", "deposito", "commissioni", "rimborso commissioni", "interessi",
    "interessi passivi", "prelievo", "tasse", "rimborso tasse", "storting", "kosten", "terugbetaling kosten",
    "creditrente", "debetrente", "onttrekking", "belasting", "belastingteruggave", "rente",
)  # fmt: skip


def _read(sheet: Sheet) -> Parsed:
    table, out = activity_table(sheet, COLUMNS)
    ledger = Ledger(sheet)
    for row in each_row(table, out):
        kind, day = " ".join(table.raw(row, "type").lower().split()), table.day(row, "date")
        moves_shares = kind in (*_MORE, *_LESS) or (kind in (*_IN, *_OUT) and table.raw(row, "shares").strip())
        if not moves_shares:
            ledger.seen(day) if kind in (*_MONEY, *_IN, *_OUT) else unknown_kind(table, row, "type")
            continue
        currency, _ = money_unit(sheet, row, table.raw(row, "currency") or "EUR")
        thing = thing_of(
            table, row, currency=currency, name=table.text(row, "name"), symbol=table.raw(row, "ticker"),
            code=table.raw(row, "isin"),
        )  # fmt: skip
        shares = table.number(row, "shares")
        is_less = kind in (*_LESS, *_OUT)
        ledger.move(row, day, thing, -abs(shares) if shares is not None and is_less else shares)
    sheet.notes.append(NO_CASH)
    out.drafts, out.summed = [ledger.done()], ledger.rows
    return out


PORTFOLIO_PERFORMANCE = Format(
    "portfolio-performance",
    "Portfolio Performance, transactions",
    "Date, Type, Value, Transaction Currency, Shares, ISIN, WKN, Ticker Symbol, Security Name, in its languages",
    fits(COLUMNS),
    _read,
    summed=True,
)
