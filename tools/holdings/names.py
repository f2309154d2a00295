"""Symbols, contracts and kinds as exports of brokers write them, in the desk's spelling."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from typing import Literal

from chordesk.models.market import contract_of, parse_contract
from chordesk.models.statements import Kind
from chordesk.tools.market.files.symbols import listed
from chordesk.tools.market.home import foreign
from chordesk.tools.market.universe import is_symbol

ISIN = re.compile(r"[A-Z]{2}[A-Z0-9]{9}\d")
_CUSIP = re.compile(r"(?=.*\d.*\d)[0-9A-Z]{8}\d")
# Funds in which brokers keep idle cash, at a price of 1.
SWEEPS = frozenset(
    ("SPAXX", "FDRXX", "FZFXX", "FCASH", "CORE", "FDLXX", "SPRXX", "FZDXX", "VMFXX", "VMRXX", "VUSXX", "SWVXX", "SNVXX",
     "SNAXX", "SNSXX", "QACDS", "BDPXX")
)  # fmt: skip
_MONTHS = {
    name: at
    for at, name in enumerate(["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"], 1)
}
_COMPACT = re.compile(r"-?\s*([A-Z]{1,6})\s*(\d{6})([CP])(\d+(?:\.\d+)?)")  # AAPL260116C200
_IBKR = re.compile(r"([A-Z. ]{1,7}?)\s+(\d{1,2})([A-Z]{3})(\d{2})\s+(\d+(?:\.\d+)?)\s+([CP])")  # AAPL 17JAN25 180 C
_SCHWAB = re.compile(r"([A-Z./]{1,7})\s+(\d{2})/(\d{2})/(\d{4})\s+(\d+(?:\.\d+)?)\s+([CP])")  # AAPL 01/17/2025 180.00 C
_ETRADE = re.compile(
    r"([A-Z./]{1,7})\s+([A-Za-z]{3})\s+(\d{1,2})\s+'(\d{2})\s+\$([\d,]+(?:\.\d+)?)\s+(Put|Call)", re.IGNORECASE
)  # QQQ Dec 31 '26 $600 Put
_WORDED = re.compile(r"([A-Z./]{1,7})\s+(\d{1,2})/(\d{1,2})/(\d{4})\s+(Call|Put)\s+\$([\d,]+(?:\.\d+)?)", re.IGNORECASE)
# A word for it, a day and then a letter beside a strike, or such a letter at the end.
_LOOKS = re.compile(
    r"\b(?:PUT|CALL)\b|\d{6}[CP]\d|\s[CP]$|\d[/-]\d{1,2}\b.*(?:\b[CP]\s?\$?\d|\d\s?[CP]\b)"
    r"|\s(?:[CP]\s?\$?\d+(?:\.\d+)?|\$?\d+(?:\.\d+)?\s?[CP])$",
    re.IGNORECASE,
)
_CASH = re.compile(r"\$?CASH|([A-Z]{3}) CASH|CASH \(?([A-Z]{3})\)?")
# The suffix of an exchange where a broker's files name shares of one market alone.
SUFFIXES = {"INR": ".NS", "HKD": ".HK"}


def option(text: str, *, thousandths: bool = False) -> str | None:
    """Return the OCC symbol of a contract as a broker writes it; None of a text that is no contract. thousandths: a
    strike behind C or P is a thousand times the price."""
    written = " ".join(text.upper().split())
    if (found := parse_contract(written.removeprefix("-"))) is not None:
        return found.symbol
    try:
        if (match := _COMPACT.fullmatch(written)) is not None:
            strike = Decimal(match[4]) / (1000 if thousandths else 1)
            return _occ(match[1], dt.datetime.strptime(match[2], "%y%m%d").date(), match[3], strike)
        if (match := _IBKR.fullmatch(written)) is not None:
            day = dt.date(2000 + int(match[4]), _MONTHS[match[3]], int(match[2]))
            return _occ(match[1], day, match[6], Decimal(match[5]))
        if (match := _SCHWAB.fullmatch(written)) is not None:
            day = dt.date(int(match[4]), int(match[2]), int(match[3]))
            return _occ(match[1], day, match[6], Decimal(match[5]))
        if (match := _ETRADE.fullmatch(text.strip())) is not None:
            day = dt.date(2000 + int(match[4]), _MONTHS[match[2].upper()], int(match[3]))
            return _occ(match[1], day, match[6], Decimal(match[5].replace(",", "")))
        if (match := _WORDED.fullmatch(text.strip())) is not None:
            day = dt.date(int(match[4]), int(match[2]), int(match[3]))
            return _occ(match[1], day, match[5], Decimal(match[6].replace(",", "")))
    except (KeyError, ValueError, InvalidOperation):
        return None
    return None


def _occ(root: str, day: dt.date, kind: str, strike: Decimal) -> str | None:
    letters = re.sub(r"[^A-Z]", "", root.upper())
    sort: Literal["call", "put"] = "call" if kind.upper().startswith("C") else "put"
    found = contract_of(letters, day, sort, strike) if letters and 0 < strike < 100_000 else None
    return found.symbol if found is not None and parse_contract(found.symbol) is not None else None


def cash_of(text: str) -> str | None:
    """Return the currency of cash that is written in place of a symbol (USD CASH, Cash (EUR)), empty where it names
    none; None of another text."""
    found = _CASH.fullmatch(" ".join(text.upper().split()))
    return None if found is None else found[1] or found[2] or ""


def is_cusip(text: str) -> bool:
    """Whether a text is the number of a paper in place of its ticker, as bonds have it."""
    return _CUSIP.fullmatch(text.strip().upper()) is not None


def looks_like_option(text: str) -> bool:
    return _LOOKS.search(text.strip()) is not None


def ticker(text: str, currency: str) -> str | None:
    """Return a share's symbol in the desk's spelling; None where the text is none, or names nothing for certain: the
    ticker of another market may be another company's in New York."""
    written = text.strip()
    if not written or ISIN.fullmatch(written):
        return None
    if currency == "USD":
        found = listed(written)
        return found if is_symbol(found) and foreign(found) is None else None
    if "." in written and foreign(written.upper()) is not None:  # it has the suffix of its exchange already
        return written.upper() if is_symbol(written.upper()) else None
    if (suffix := SUFFIXES.get(currency)) is None:
        return None
    stem = re.sub(r"-(?:EQ|BE|BZ|SM)$", "", written.upper())
    if suffix == ".HK" and stem.isdigit():
        stem = f"{int(stem):04d}"
    found = f"{stem}{suffix}"
    return found if is_symbol(found) else None


_TOTAL = re.compile(
    r"(?:grand |account |portfolio |sub-?)?totals?|sum|summe|gesamt(?:summe|wert)?|totaal|totale|somme|suma"
    r"|合计|总计|合計|總計|総計|小計|小计"
    r"|net (?:worth|assets?|value)|net asset value|(?:account|portfolio) value",
    re.IGNORECASE,
)


def is_total(text: str) -> bool:
    """Whether a cell names a row of sums, in the languages of the files that are known."""
    return _TOTAL.fullmatch(" ".join(text.split()).rstrip(":").strip()) is not None


_KINDS: tuple[tuple[Kind, str], ...] = (
    ("option", "option options opt call put"),
    ("cash", "cash money sweep currency"),
    ("crypto", "crypto cryptocurrency"),
    ("fund", "etf etp etn fund mutual funds trust closed"),
    ("other", "bond bonds fixed income cd treasury future futures fut fop forex cfd warrant note"),
    ("share", "stock stocks equity equities share shares common adr stk"),
)


def kind_of(text: str) -> Kind | None:
    """Return the kind that a broker's word for it means, such as "Equity" or "Cash and Money Market"."""
    words = set(re.findall(r"[a-z]+", text.lower()))
    return next((kind for kind, known in _KINDS if words & set(known.split())), None)
